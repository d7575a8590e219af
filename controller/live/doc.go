// Package live reads single objects, and all of a kind, from the API server itself
// and never from a cache. A decision that destroys data, or gives it to another
// claim, rests on such a read.
//
//	objects.go  one claim or PV, nil if it is gone
//	pages.go    all claims or PVs of the cluster, a page at a time
//	errors.go   an API server that does not answer
package live
