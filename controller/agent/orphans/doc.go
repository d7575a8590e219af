// Package orphans finds volumes without a PV and PVs without a directory. It reports them, and with
// --orphans=delete it removes volumes:
//
//	orphans.go  when a check runs
//	find.go     what an orphan is
//	timer.go    for how long a volume has been one
//	remove.go   which orphans may be removed
//	asked.go    the orphans for an administrator, who may have one removed
//	restored.go the PV and the claim that bring one back
//	report.go   event and metric
package orphans
