package claimpools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
)

// NameTaken describes a claim of another pool that has the name of one of the pool's, on any node
// that exists, or returns "".
func NameTaken(ctx context.Context, from client.Reader, namespace, pool string) (string, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := from.List(ctx, nodes); err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &claims, client.InNamespace(namespace), client.HasLabels{objects.PoolLabel}); err != nil {
		return "", fmt.Errorf("list the claims of pools: %w", err)
	}
	wanted := map[string]string{} // the node of each of the pool's claims
	for _, node := range nodes.Items {
		wanted[objects.NameOf(pool, node.Name)] = node.Name
	}
	for _, claim := range claims.Items {
		node, found := wanted[claim.Name]
		if found && claim.Labels[objects.PoolLabel] != objects.LabelOf(pool) {
			return fmt.Sprintf("pool %s: on node %s its claim would have the name %s, which is that of a claim of pool %s; "+
				"give the new pool another name",
				pool, node, claim.Name, strings.TrimSuffix(claim.Labels[objects.PoolLabel], "-hpp")), nil
		}
	}
	return "", nil
}

// Conflict describes what of the template a claim of the pool cannot have, the first of these
// claims by its name, or returns "".
func Conflict(ctx context.Context, claims client.Reader, namespace, pool string,
	template *corev1.PersistentVolumeClaimSpec) (string, error) {
	var list corev1.PersistentVolumeClaimList
	if err := claims.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{objects.PoolLabel: objects.LabelOf(pool)}); err != nil {
		return "", fmt.Errorf("list the claims of pool %s: %w", pool, err)
	}
	// a cache has no order
	slices.SortFunc(list.Items, func(a, b corev1.PersistentVolumeClaim) int { return strings.Compare(a.Name, b.Name) })
	for _, claim := range list.Items {
		if problem := conflict(template, &claim); problem != "" && claim.DeletionTimestamp == nil {
			return "pool " + pool + ": " + problem, nil
		}
	}
	return "", nil
}

func conflict(template *corev1.PersistentVolumeClaimSpec, claim *corev1.PersistentVolumeClaim) string {
	if objects.IsBlock(&claim.Spec) {
		return fmt.Sprintf("claim %s has volumeMode Block, and a pool needs a filesystem; add a pool of another name "+
			"and path without volumeMode, whose claims have one, and move the volumes to it. The claim, and the Deployment "+
			"that uses it, stay as they are",
			claim.Name)
	}
	if what := differs(template, &claim.Spec); what != "" {
		return fmt.Sprintf("pvcTemplate has another %s than claim %s, and claims cannot be changed; set it back, or "+
			"remove the pool, delete its claims, and add it again", what, claim.Name)
	}
	want := template.Resources.Requests[corev1.ResourceStorage]
	have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if want.Cmp(have) < 0 {
		return fmt.Sprintf("pvcTemplate requests %s, and claim %s has %s: claims do not shrink; set it back", &want,
			claim.Name, &have)
	}
	return ""
}

// differs returns a key of the template that has another value in the claim. The API server sets
// what a template leaves out.
func differs(template, claim *corev1.PersistentVolumeClaimSpec) string {
	modes := slices.Sorted(slices.Values(template.AccessModes))
	switch {
	case template.StorageClassName != nil && !ptr.Equal(template.StorageClassName, claim.StorageClassName):
		return "storageClassName"
	case !slices.Equal(modes, slices.Sorted(slices.Values(claim.AccessModes))):
		return "accessModes"
	case objects.IsBlock(template) != objects.IsBlock(claim):
		return "volumeMode"
	case template.VolumeName != "" && template.VolumeName != claim.VolumeName:
		return "volumeName"
	case template.Selector != nil && !equality.Semantic.DeepEqual(template.Selector, claim.Selector):
		return "selector"
	case template.DataSource != nil && !equality.Semantic.DeepEqual(template.DataSource, claim.DataSource):
		return "dataSource"
	}
	return ""
}
