// Package nodechoice has what agents and the operator do alike about the node of a claim that
// waits: the words of their events, and how a claim is given back to the scheduler. Whichever of
// them is first records the event, because both take its name from the same topic.
//
//	describe.go  the events of claims that name no node, or one that does not exist
//	giveback.go  removes the scheduler's choice of a node from a claim
package nodechoice
