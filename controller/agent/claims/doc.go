// Package claims decides which claims of the cluster are local to one node, and watches only those,
// so that an agent's memory grows with its node and not with the cluster.
//
//	claims.go      the local claims, as the provisioner sees them and its library needs them
//	placement.go   local, remote or unassigned? (pure)
//	filter.go      lists and watches claims, and passes the local ones
//	stream.go      one filtered watch
//	held.go        holds claims whose class does not exist yet, or whose source is not here
//	retry.go       retries temporarily refused claims
//	unserved.go    which claims no agent may serve, and when each is checked
//	check.go       records one event about a claim that no agent will serve, and its message
//	source.go      the same about the source of a copy
//	space.go       the same, by what all nodes publish for the scheduler
package claims
