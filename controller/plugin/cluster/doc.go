// Package cluster reads what the API server has about an installation, with the rights of the user.
// A list that the user may not read is unknown: it is never empty, because an absent agent and an
// agent that may not be listed need different answers.
//
//	list.go    a list, or the reason why it is unknown
//	reader.go  reads lists and single objects
//	agent.go   the agents' pods, and what their pods say about them
//	events.go  the events of one object
//	metrics.go the agents' metrics
//	clock.go   the API server's time
//	installation.go  what else doctor and report read
//	node.go    the node of a PV
package cluster
