// Package objects has the objects of pools on claims: their names, which are those of the existing
// operator, and what they have. It reads nothing.
//
//	pool.go     what is wanted, and which templates are refused
//	names.go    names and labels
//	holder.go   the Deployment
//	unmount.go  the Job
package objects
