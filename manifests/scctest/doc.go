// Package scctest decides whether pods fit SecurityContextConstraints, as the admission of
// OpenShift does. It is for tests where no such cluster is at hand.
//
// The rules are those of github.com/openshift/apiserver-library-go, pkg/securitycontextconstraints:
// what a pod leaves out is filled in first, and then each of its fields has to be allowed. A pod
// that uses what is not modelled here is refused, so that a test cannot pass by it.
//
// Files:
//
//	constraints.go  the API object, and those of OpenShift itself that our pods need
//	pod.go          fields of a whole pod
//	container.go    fields of a container
package scctest
