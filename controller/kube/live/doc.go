// Package live reads objects from the API server itself and never from a cache. A
// decision that destroys data, or gives it to another claim, needs such a read.
//
//	objects.go    one claim, PV, node or namespace
//	pages.go      all claims, PVs or capacity objects, a page at a time
//	unchanged.go  deletes an object only as it was read
//	errors.go     the error of a failed read; which refusals are permanent
package live
