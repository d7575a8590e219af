// Package httpserver serves /healthz, /readyz, /status and /metrics, and profiles if they are asked
// for, over HTTP or HTTPS. The API server can decide which clients may read metrics. What clients
// take is bounded.
package httpserver
