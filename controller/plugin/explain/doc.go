// Package explain says why a claim waits, or where its volume is. It reads the events that the
// agents and the operator recorded about the claim, and adds what the other objects show.
//
//	facts.go    what is read, and Read
//	answer.go   the answer, and Explain, which chooses the checks
//	bound.go    a claim that has its PV
//	pending.go  a claim that waits: its class, the provisioner, its node
//	nodes.go    each node that could hold the volume, and what it lacks; agents.go its agent,
//	            space.go its pool; index.go the facts by node
//	advice.go   the events, with what each asks for
package explain
