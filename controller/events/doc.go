// Package events records Kubernetes events about claims, PVs and nodes.
//
//	recorder.go   records an event once, or counts it
//	reference.go  how an event refers to its object
//	discard.go    the recorder of an agent without an API server
//
// An event that a user must act on is recorded once for each topic and hour,
// however many agents and restarts come to the same conclusion.
package events
