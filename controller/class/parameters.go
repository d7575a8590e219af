package class

import (
	"cmp"
	"slices"
	"strings"
)

// KubernetesPrefix begins the keys of class parameters and volume attributes
// that are Kubernetes' own.
const KubernetesPrefix = "csi.storage.k8s.io/"

// PoolName returns the name of the pool that a class's parameters or a PV's
// volume attributes select.
func PoolName(from map[string]string) string { return cmp.Or(from[StoragePool], DefaultPool) }

// UnknownKeys returns the keys that are none of the known ones and do not
// begin with prefix, sorted; "" is no prefix.
func UnknownKeys(given map[string]string, known []string, prefix string) []string {
	var unknown []string
	for key := range given {
		if !slices.Contains(known, key) && (prefix == "" || !strings.HasPrefix(key, prefix)) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}
