// Package monitoring tests the rules of manifests/monitoring with promtool, and runs a Prometheus
// for tests of running agents. Both programs are those of the Debian package prometheus.
package monitoring
