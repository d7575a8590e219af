// Package record keeps the records of a pool's volumes. A record is what the agent
// must remember of a volume and its directory cannot show. It is a JSON file in the
// pool; docs/on-disk-format.md lists the states and what a crash leaves of them.
//
// A Store has all records of one pool in memory and writes them to the disk. A record
// can be deferred: memory is ahead of the disk then, and the next purge writes it.
package record
