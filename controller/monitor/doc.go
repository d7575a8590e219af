// Package monitor probes pools and published volumes. It logs and records an
// event when the condition of one changes, and serves metrics of both.
//
// It also does the slow work of a pool, a part at a time: emptying the trash, and
// measuring what volumes use where the filesystem does not count it.
package monitor
