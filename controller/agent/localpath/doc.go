// Package localpath reads the configuration of the local-path provisioner, maps it to one
// node, and watches for that provisioner itself.
//
//	config.go    parses config.json of the ConfigMap local-path-config
//	paths.go     the directories of one node, and those of a class
//	file.go      the file on the node, and its changes
//	original.go  whether the local-path provisioner runs beside the agents
//
// The package compares directories and never opens one. The helper pod, its scripts and
// its commands have no effect: the agent creates and removes directories itself.
package localpath
