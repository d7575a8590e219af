// Package report writes a bundle for people who help: what the API server has about an
// installation, what its agents report, their logs, and what doctor finds, in one ZIP archive.
//
// It reads no Secret. It leaves out what is not about local storage, and what its owners may have
// written for themselves; see redact.go. A manifest lists what is inside, and what is missing with
// the reason.
//
//	report.go    the parts, and Write
//	bundle.go    the archive and its manifest
//	objects.go   which objects
//	redact.go    what is cut of them
//	logs.go      the logs of the last hour
//	file.go      a file that is complete or does not exist
package report
