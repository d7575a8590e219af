// Package conformance has what the storage tests of Kubernetes need to know of this driver, and
// judges what a run of them reported.
//
// Kubernetes ships its end-to-end tests as one program, e2e.test. Given a driver's description, it
// has a spec for each promise that a CSI driver may make: the external storage suite. TestConformance
// of e2e/nodes runs it against the deployed driver; make conformance runs that test.
//
//   - driver.yaml describes the driver: its name, its class and its capabilities.
//   - excluded.txt has the specs that are not run, each with its reason.
//   - ran.txt has the specs that ran and passed.
//
// A run is good if every spec of the suite passed and is in ran.txt, was skipped by the suite
// because of a capability, or is excluded. So a spec that Kubernetes renames, or one that stops
// running because a capability is gone, fails the run until a person has looked at it.
package conformance
