package simulation

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// copyActs are what tenants do with copies of their claims.
var copyActs = []act{
	{words: "claim copy", usage: "NAME FROM NODE: a claim whose data source is a claim, for a pod that may run on the node", weight: 3,
		next: []string{"delete claim", "claim again", "claim copy", "grow claim", "agent kill before step", "agent kill after write", "disk away"},
		draw: func(w *World) []string {
			if from := w.aClaim(); from != nil {
				return []string{w.newName(), from[0], pick(w, w.nodes).name}
			}
			return nil
		},
		do: func(w *World, args []string) bool { return w.copyClaim(arg(args, 0), arg(args, 1), arg(args, 2)) }},
	{words: "claim fill", usage: "NAME: its pod writes so much that a copy of it takes a minute", weight: 1, next: []string{"claim copy"},
		draw: func(w *World) []string { return w.aClaim() },
		do:   func(w *World, args []string) bool { return w.judge.fill(arg(args, 0)) }},
}

// copyRate is the flag of agents that write so slowly that people do something while a copy is made.
const copyRate = "--copy-rate=4Ki"

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
