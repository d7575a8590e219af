// Package health looks after pools and published volumes and says how they
// are: the log and events when one stops being well or is so again, metrics for
// everything that can be counted, and the HTTP endpoints that Kubernetes and
// people ask.
//
// It also does a pool's slow work, a bit at a time: emptying the trash, and
// measuring what volumes use where the filesystem does not know.
package health
