package claimpools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The labels of the existing operator. Its claims and Deployments are found by their names.
const (
	// poolLabel is on claims and Deployments, holderLabel on the pods of a pool.
	poolLabel   = "kubevirt.io.hostpath-provisioner/storagePool"
	holderLabel = "hpp-pool"
)

// labelOf returns the value of both labels.
func labelOf(pool string) string { return pool + "-hpp" }

// NameOf returns the name of the claim and the Deployment of a pool on a node. It shortens a long
// name as the existing operator does, because claims with data have these names.
func NameOf(pool, node string) string { return short("hpp-pool", pool+"-"+node) }

// NameTaken describes a claim of another pool that has the name of one of the pool's, on any node
// that exists, or returns "".
func NameTaken(ctx context.Context, from client.Reader, namespace, pool string) (string, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := from.List(ctx, nodes); err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &claims, client.InNamespace(namespace), client.HasLabels{poolLabel}); err != nil {
		return "", fmt.Errorf("list the claims of pools: %w", err)
	}
	for _, claim := range claims.Items {
		for _, node := range nodes.Items {
			if claim.Name == NameOf(pool, node.Name) && claim.Labels[poolLabel] != labelOf(pool) {
				return fmt.Sprintf("pool %s: on node %s its claim would have the name %s, which is that of a claim of pool %s; "+
					"give the new pool another name",
					pool, node.Name, claim.Name, strings.TrimSuffix(claim.Labels[poolLabel], "-hpp")), nil
			}
		}
	}
	return "", nil
}

// jobOf returns the name of the Job that unmounts a pool on a node. It becomes a label of the Job's
// pods, and no other pool and node have it: a Job that unmounted another mount proves nothing.
func jobOf(pool, node string) string {
	sum := sha256.Sum256([]byte(pool + "/" + node))
	suffix := "-" + hex.EncodeToString(sum[:])[:8]
	name := strings.ReplaceAll("cleanup-pool-"+pool+"-"+node, ".", "-")
	return strings.TrimRight(name[:min(len(name), validation.DNS1123LabelMaxLength-len(suffix))], "-") + suffix
}

// olderJobOf returns the name that the Job had before v0.1, which several pools and nodes can have.
func olderJobOf(pool, node string) string {
	return strings.ReplaceAll(short("cleanup-pool", pool+"-"+node), ".", "-")
}

// short joins a prefix and a name. If both are longer than a label, their FNV-1a hash replaces the
// name.
func short(prefix, name string) string {
	all := prefix + "-" + name
	if len(all) <= validation.DNS1123LabelMaxLength {
		return all
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(all)) // it returns no error
	return fmt.Sprintf("%s-%08x", prefix, h.Sum32())
}

// IsClaim reports whether the object is a claim of a pool, or a Deployment or Job for one.
func IsClaim(o client.Object) bool { return o.GetLabels()[poolLabel] != "" }
