package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The labels of the existing operator. Its claims and Deployments are found by their names.
const (
	// PoolLabel is on claims and Deployments, holderLabel on the pods of a pool.
	PoolLabel   = "kubevirt.io.hostpath-provisioner/storagePool"
	HolderLabel = "hpp-pool"
)

// LabelOf returns the value of both labels.
func LabelOf(pool string) string { return pool + "-hpp" }

// NameOf returns the name of the claim and the Deployment of a pool on a node. It shortens a long
// name as the existing operator does, because claims with data have these names.
func NameOf(pool, node string) string { return short("hpp-pool", pool+"-"+node) }

// JobOf returns the name of the Job that unmounts a pool on a node. It becomes a label of the Job's
// pods, and no other pool and node have it: a Job that unmounted another mount proves nothing.
func JobOf(pool, node string) string {
	sum := sha256.Sum256([]byte(pool + "/" + node))
	suffix := "-" + hex.EncodeToString(sum[:])[:8]
	name := strings.ReplaceAll("cleanup-pool-"+pool+"-"+node, ".", "-")
	return strings.TrimRight(name[:min(len(name), validation.DNS1123LabelMaxLength-len(suffix))], "-") + suffix
}

// OlderJobOf returns the name that the Job had before v0.1, which several pools and nodes can have.
func OlderJobOf(pool, node string) string {
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
func IsClaim(o client.Object) bool { return o.GetLabels()[PoolLabel] != "" }
