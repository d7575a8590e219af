// Package operator installs and keeps the agents that a HostPathProvisioner describes. Its parts are
// the packages below; it joins them.
//
//	manager.go     what is cached and watched; begin here, and go on in package install
//	claims.go      how claims of all namespaces are cached
//	settings.go    the environment of the operator
//	outside.go     what an operator shares with its process: addresses, metrics
//	monitoring.go  the objects for Prometheus
//	openshift.go   the constraints of the agents' pods, and the TLS profile
package operator
