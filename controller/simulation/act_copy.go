package simulation

import (
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// copyActs are what tenants do with copies of their claims.
var copyActs = []act{
	{words: "claim copy", usage: "NAME FROM NODE: a claim whose data source is a claim, for a pod that may run on the node", weight: 3,
		next: []string{"delete claim", "claim again", "claim copy"},
		draw: func(w *World) []string {
			if from := w.aClaim(); from != nil {
				return []string{w.newName(), from[0], pick(w, w.nodes).name}
			}
			return nil
		},
		do: func(w *World, args []string) bool { return w.copyClaim(arg(args, 0), arg(args, 1), arg(args, 2)) }},
}

// copyClaim makes a claim that is to be a copy, of the class and the size of the original.
func (w *World) copyClaim(name, from, node string) bool {
	original, err := w.god.CoreV1().PersistentVolumeClaims(tenant).Get(ctx, from, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || w.node(node) == nil || name == "" {
		return false
	}
	must(err)
	const kind = "PersistentVolumeClaim"
	spec := corev1.PersistentVolumeClaimSpec{Resources: original.Spec.Resources,
		DataSource:    &corev1.TypedLocalObjectReference{Kind: kind, Name: from},
		DataSourceRef: &corev1.TypedObjectReference{Kind: kind, Name: from}}
	return w.apply(tenant, name, ptr.Deref(original.Spec.StorageClassName, ""), spec, nil, map[string]string{wantsNode: node})
}

// copied judges what a copy has when its pod first starts, and has the pod write its own. It does nothing
// for a claim that is no copy, or whose pod has written. The caller holds the lock.
func (j *judge) copied(v *volume, claim *corev1.PersistentVolumeClaim) {
	from, is := contract.CopiedClaim(claim)
	if !is || v.mark != "" || v.claim != claim.UID {
		return
	}
	file := filepath.Join(j.place(v), dataFile)
	have, err := os.ReadFile(file)
	original := j.ofMark(string(have))
	switch {
	case err != nil && j.writtenBefore(from, claim):
		j.blameLocked("COPY", "the copy %s has not the data of claim %s", claim.Name, from.Name)
	case err == nil && (original == nil || original.name != from.String()):
		j.blameLocked("COPY", "the copy %s of claim %s has the data of another", claim.Name, from.Name)
	}
	if os.WriteFile(file, []byte(claim.UID), 0o644) == nil {
		v.mark = string(claim.UID)
	}
}

// writtenBefore reports whether the only volume that the original ever had was written before the claim of its
// copy was made.
func (j *judge) writtenBefore(from contract.Named, claim *corev1.PersistentVolumeClaim) bool {
	volumes, before := 0, false
	for _, v := range j.volumes {
		if v.name == from.String() {
			volumes++
			before = v.mark != "" && v.bound.Add(mostAhead).Before(claim.CreationTimestamp.Time)
		}
	}
	return volumes == 1 && before
}
