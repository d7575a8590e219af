// Package installed reads what of the product is in the cluster: which resource is served, whether
// another installation serves it, the agents' DaemonSet, and their pods.
package installed
