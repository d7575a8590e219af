// Package monitor probes pools and published volumes. It logs and records an event when the
// condition of one changes, and exports metrics of both. It also runs the periodic work of a pool:
// it empties the trash, and measures the use of volumes for which the filesystem has no counter.
//
//	pool.go        the loops of one pool, and whether it is on the operating system's filesystem
//	volumes.go     conditions of published volumes
//	metrics.go     metrics of pools
//	per_volume.go  metrics of single volumes
//	scrape.go      bounds a scrape while a disk does not respond
package monitor
