package poolrecord

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// Holder is the record of a holder. Users can change Deployments, so these never decide where to
// unmount.
type Holder struct {
	Pool string `json:"pool"`
	Node string `json:"node"`
	// Path is the directory at which the pod mounts.
	Path string `json:"path"`
	// ClaimUID is the UID of the claim that it mounts, "" for a holder of an earlier version.
	ClaimUID types.UID `json:"claimUID,omitempty"`
	// Volume is the name of the PV of the claim, "" before that is bound.
	Volume string `json:"volume,omitempty"`
	// ID is the UUID of the pool on the disk, as an agent published it, "" before one did.
	ID string `json:"poolID,omitempty"`
	// Unmounted is set before the Deployment is deleted, after which nothing remembers that the Job
	// unmounted the disk.
	Unmounted bool `json:"unmounted,omitempty"`
}

// Arguments returns the arguments that name the claim whose disk is mounted, none if it is not known.
func (h Holder) Arguments() []string {
	if h.ClaimUID == "" {
		return nil
	}
	return []string{"--pool=" + h.Pool, "--claim-uid=" + string(h.ClaimUID)}
}

// IsPath reports whether the path can be that of a pool, at which a filesystem is mounted.
func IsPath(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && filepath.Dir(path) != "/"
}

// OnClaim reports whether the pool of that name is on a claim on the node.
func (c Content) OnClaim(pool, node string) bool {
	for _, h := range c.Holders {
		if h.Pool == pool && h.Node == node {
			return true
		}
	}
	return false
}
