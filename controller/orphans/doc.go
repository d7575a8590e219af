// Package orphans finds volumes and PVs that lost each other, reports them, and removes volumes
// if it is told to:
//
//	orphans.go  when it checks
//	find.go     what is an orphan
//	watch.go    for how long it has been one
//	remove.go   which may be removed
//	report.go   event and metric
package orphans
