// Package httpserver answers HTTP: /healthz, /readyz and /metrics, and profiles if they are asked
// for. It serves them in the clear or over TLS, and can let the API server decide who reads metrics.
package httpserver
