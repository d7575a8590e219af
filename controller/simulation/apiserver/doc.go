// Package apiserver is a Kubernetes API server in memory, behind an http.RoundTripper. It opens no
// socket, so it runs in a testing/synctest bubble, and it is as strict as a real one in what this
// project's programs depend on: preconditions, conflicts, expired history, finalizers, grace periods,
// subresources, immutable fields, sizes. Its test compares it with a real one, request by request.
//
// It models get, list (also in pages), watch (with bookmarks and initial events), create, update,
// server-side apply, the three other patches, delete, deletecollection, dry runs, label and field
// selectors, PartialObjectMetadata, discovery, access reviews and the garbage collector. Objects of
// Kubernetes' own kinds pass through their Go types, which drops unknown fields and gives quantities
// and times their canonical form.
//
// It leaves out RBAC, protobuf, tables, OpenAPI and schemas of custom resources, conversion except of
// events, admission plugins except the protection of volumes and claims, and most validation and
// defaults. Nodes, pods, claims, volumes, events and leases have managed fields only from their first
// server-side apply on. Lists and gets are never stale; watches are, by the lag of their client. Every
// controller but the garbage collector is left to the simulated cluster.
package apiserver
