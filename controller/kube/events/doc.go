// Package events records Kubernetes events about claims, PVs, pods and nodes.
//
//	reasons.go   all reasons, and what each means
//	recorder.go  records an event once, or counts it
//	text.go      counts and lists in messages
//
// An event that a user must act on is recorded once an hour for each object and
// topic, even if several agents record it or an agent restarts.
package events
