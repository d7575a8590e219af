// Package provision serves the claims of this node: it creates their volumes and PVs,
// or refuses them. It adapts the agent to the provisioner library.
//
//	controller.go   the Controller and what it needs
//	library.go      builds the library, and what it may do to the informers' stores
//	provisioner.go  what the library calls to create a volume
//	place.go        the pool and the directory of a claim's volume
//	copy.go         makes volumes as copies of those of other claims
//	source.go       what is copied
//	empty.go        claims that a pod may use together with a copy
//	refuse.go       why a claim is not served, as an event
//	delete.go       what the library calls to delete a volume, and how far each deletion is
//	client.go       how the library saves and deletes PVs
//
// One agent runs on every node and there is no leader. controller/agent/claims drops remote
// claims. ShouldProvision and ShouldDelete return false for what is not local: an error
// of Provision or Delete would be an event on every node.
//
// A node may have two agents, one for each provisioner's name.
package provision
