// Package monitor looks after pools and published volumes and says how they
// are: the log and events when one stops being well or is so again, and metrics for
// everything that can be counted.
//
// It also does a pool's slow work, a bit at a time: emptying the trash,
// measuring what volumes use where the filesystem does not know, and, where it
// is asked to, giving adopted volumes their limits.
package monitor
