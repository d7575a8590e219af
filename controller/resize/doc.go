// Package resize grows volumes: a claim of this node asks for more, and its
// volume, its PV and the claim itself follow, in this order, so that nothing
// ever says more than the volume has. It runs beside the claim loop, which
// shows it this node's claims and PVs and says which PVs are its own. Both
// shapes of PVs grow the same way, and no kubelet is needed for it.
//
//	resizer.go  who is woken by what
//	grow.go     one claim, one step after the other
//	size.go     what is asked for, and what is there (pure)
//	status.go   what a claim says of it (pure)
//	refuse.go   why a volume cannot grow, in words
//	failing.go  claims that cannot grow now, tried again
//
// Nothing is remembered of a step that was done: each look at claim, PV and
// volume shows which is behind. So an agent that is killed between two steps
// goes on at its next start.
//
// The names of conditions, states and event reasons are those of the standard
// external-resizer. It also announces a resize before it begins (condition
// Resizing, ControllerResizeInProgress); here that would be over before anybody
// could read it.
package resize
