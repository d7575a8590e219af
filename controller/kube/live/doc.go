// Package live reads objects from the API server itself and never from a cache. A
// decision that destroys data, or gives it to another claim, needs such a read.
//
//	objects.go  one claim, PV, node or namespace, and its deletion; errors of reads
//	pages.go    all claims, PVs or capacity objects, a page at a time
package live
