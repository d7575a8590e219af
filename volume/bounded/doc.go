// Package bounded makes calls on a disk that may hang; their callers wait for a bounded time.
//
// A system call on a disk that hangs (a frozen filesystem, a lost path, a driver that lost a
// request) never returns, and nothing can end it: its thread sleeps in the kernel. Calls bounds the
// threads that such a disk can hold:
//
//   - Each call runs in its own goroutine. If it does not return within the patience of its Calls,
//     its caller gets an error that is fault.ErrNotReady. The call stays in the kernel and keeps
//     its locks, so that no other call repeats its work. Its result is dropped. A call that only
//     waits for a lock ends with its caller.
//   - At most 16 calls of Do are on the disk at a time.
//   - If a call has been in the kernel for nearly as long as the patience, Calls refuses new calls
//     at once, until that call returns.
//
// Work that visits many files may take any time: each file is progress (Call.Progress), and only
// the time since the last progress counts.
//
// A variable that a call writes belongs to the call until the call has returned. After an
// ErrNotReady the call may still be under way, so its caller must not use the variable.
//
// Turns, NameLocks and Door are locks for which a call stops waiting when its caller leaves.
package bounded
