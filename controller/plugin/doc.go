// Package plugin has the commands of kubectl-hpp, the plugin of kubectl. It shows an installation
// of hostpath-provisioner and says why a claim waits.
//
// The plugin has the rights of the user, and no others. It reads the API server, and runs the
// agents' own commands in their pods if the user may (create pods/exec). What the user may not read
// is shown as unknown with the reason, never as absent or healthy. It changes nothing, but for doctor
// --measure, which creates claims and deletes them again, and for recover, which makes PVs and claims.
//
//	plugin.go    the command and its flags
//	session.go   the connection of one call, and how its user wants to read
//	explain.go   why a claim waits
//	status.go    the nodes with their agents and pools; df.go the pools as df prints disks
//	doctor.go    what will hurt; report.go an archive for people who help
//	version.go   the versions of plugin and agents
//	list.go      how lists are printed, and what all of them read
//	pools.go     pools; volumes.go volumes; orphans.go orphans and the trash; disks.go raw disks
//	migrate.go   how far volumes are on the way to CSI PVs; recover.go makes their PVs and claims again
//	node.go      one node
//	top.go       the fullest pools and volumes; live.go draws it again and again
//	completion.go  installs the program that kubectl completes with; complete.go completes names
package plugin
