// Package bounded makes calls on a disk that may hang, so that their callers
// wait for a bounded time.
//
// A system call on a disk that hangs (a frozen filesystem, a path that is gone,
// a driver that lost a request) never returns, and nothing can end it: its
// thread sleeps in the kernel. Calls keeps such a disk from costing the process
// more than a few threads:
//
//   - Each call runs in a goroutine of its own. If it does not return within the
//     patience of its Calls, its caller gets an error that is fault.ErrNotReady.
//     The call stays in the kernel with all the locks that it holds, so that
//     nothing is done twice, and its result is dropped. A call that only waits
//     for a lock ends with its caller.
//   - At most 16 calls of Do are on the disk at a time.
//   - If a call has been in the kernel for nearly as long, Calls refuses every
//     new one at once and leaves the disk alone. When the call that hangs
//     returns, new calls are made again.
//
// Work that visits many files takes as long as it takes: each file is progress
// (Call.Progress), and only the time since the last one counts.
//
// A variable that a call writes belongs to the call until the call has returned
// nil or an error of its own. After an error its caller must not touch the
// variable: the call may still be under way.
//
// Turns, NameLocks and Door are locks for which a call stops waiting when its
// caller leaves.
package bounded
