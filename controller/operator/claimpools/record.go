package claimpools

import (
	"context"
	"maps"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
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
	// Unmounted is set before the Deployment is deleted, after which nothing remembers that the Job
	// unmounted the disk.
	Unmounted bool `json:"unmounted,omitempty"`
}

// addUnrecorded adds the Deployments that the record lacks: those of an earlier version, or of the
// existing operator. The mount of one that is being deleted is gone, or was not made by the
// operator.
func (r *Reconciler) addUnrecorded(have map[string]*appsv1.Deployment) {
	if r.Recorded == nil {
		r.Recorded = map[string]Holder{}
	}
	for name, d := range have {
		if d.DeletionTimestamp == nil {
			r.Recorded[name] = r.recordOf(d)
		}
	}
}

// recordOf returns the record of the Deployment, or else one of what the Deployment has.
func (r *Reconciler) recordOf(d *appsv1.Deployment) Holder {
	if h, found := r.Recorded[d.Name]; found {
		return h
	}
	h := Holder{Pool: poolOf(d), Node: nodeOf(d), Path: pathOf(d), ClaimUID: claimOf(d)}
	if !IsPath(h.Path) {
		h.Path = ""
	}
	return h
}

// owner returns the arguments that name the claim whose disk is mounted, none if it is not known.
func (h Holder) owner() []string {
	if h.ClaimUID == "" {
		return nil
	}
	return []string{"--pool=" + h.Pool, "--claim-uid=" + string(h.ClaimUID)}
}

// IsPath reports whether the path can be that of a pool, at which a filesystem is mounted.
func IsPath(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && filepath.Dir(path) != "/"
}

// save writes the record if it differs from what was written last. The caller saves before it
// creates or changes an object for it.
func (r *Reconciler) save(ctx context.Context) error {
	if r.Save == nil || maps.Equal(r.Recorded, r.written) {
		return nil
	}
	if err := r.Save(ctx, r.Recorded); err != nil {
		return err
	}
	r.written = maps.Clone(r.Recorded)
	return nil
}
