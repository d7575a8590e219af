// Package resize grows volumes. If a claim of this node requests more, the agent grows the volume,
// then the PV's capacity, then the claim's status. In this order neither PV nor claim ever has more
// than the volume. PVs of both backends grow the same way, and the kubelet is not needed.
//
//	resizer.go  the queue, and what adds to it
//	grow.go     the steps for one claim
//	status.go   compares requested and present sizes, and makes the claim's status (pure)
//	refuse.go   events and conditions of volumes that cannot grow
//	failing.go  when such volumes are tried again
//
// No step is remembered: each comparison of claim, PV and volume shows which is
// behind. An agent that was killed between two steps continues at its next start.
//
// The names of conditions, states and event reasons are those of the external-resizer.
// It also sets the condition Resizing and the state ControllerResizeInProgress first;
// here the resize would be over before they could be read.
package resize
