// Package apiserver is a Kubernetes API server in memory. Clients reach it through an
// http.RoundTripper, so it opens no socket and runs in a testing/synctest bubble. It is as strict as
// a real one in what this project's programs depend on: preconditions, conflicts, expired history,
// finalizers, subresources, immutable fields, sizes.
//
// It models: get, list (also in pages), watch with bookmarks and initial events, create, update,
// server-side apply, the three older kinds of patch, delete, deletecollection, dry runs, label and
// field selectors, PartialObjectMetadata, discovery, access reviews, and the collection of objects
// whose owners are absent. Objects of Kubernetes' own kinds pass through their Go types: unknown
// fields are dropped, and quantities and times get their canonical form.
//
// It leaves out: RBAC, protobuf, tables, OpenAPI, conversion between versions other than those of
// events, most validation and most defaults, quotas, and every controller except the garbage
// collector. Whoever simulates a cluster binds claims, runs pods, and counts replicas.
package apiserver
