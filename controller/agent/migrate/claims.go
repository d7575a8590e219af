package migrate

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// claimsFor is how long a list of claims counts. The PVs that it is for are minutes old too, and
// are read again before their migration begins.
var claimsFor = timing.Scaled(time.Minute)

// listedClaims are the claims of PVs of other provisioners in one namespace. The informer has only
// those of this provisioner.
type listedClaims struct {
	at    time.Time
	byUID map[types.UID]*corev1.PersistentVolumeClaim
}

// claim returns the claim that a PV names by its UID, nil if it is gone. With fresh it reads the
// API server.
func (m *Migrator) claim(ctx context.Context, pv *corev1.PersistentVolume,
	fresh bool) (*corev1.PersistentVolumeClaim, error) {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil, nil
	}
	if fresh {
		return live.ClaimOf(ctx, m.Client, pv)
	}
	if obj, ok, err := m.claims.GetByKey(ref.Namespace + "/" + ref.Name); ok && err == nil {
		if c, ok := obj.(*corev1.PersistentVolumeClaim); ok && c.UID == ref.UID {
			return c, nil
		}
	}
	switch {
	case pv.Status.Phase != corev1.VolumeBound:
		return nil, nil // a verdict needs the claim of a Bound PV alone, and one about to be acted on is fresh
	case m.PVs.IsForeign(pv):
		return m.listedClaim(ctx, ref)
	}
	return live.ClaimOf(ctx, m.Client, pv)
}

// listedClaim returns a claim from a list of its namespace, which may be claimsFor old: a node may
// have hundreds of such PVs, and a plan needs all of their claims at every check.
func (m *Migrator) listedClaim(ctx context.Context,
	ref *corev1.ObjectReference) (*corev1.PersistentVolumeClaim, error) {
	maps.DeleteFunc(m.listed, func(_ string, l listedClaims) bool { return time.Since(l.at) > claimsFor })
	l, ok := m.listed[ref.Namespace]
	if !ok {
		wanted := map[types.UID]bool{}
		for _, pv := range m.PVs.Migratable() {
			if pv.Spec.ClaimRef != nil {
				wanted[pv.Spec.ClaimRef.UID] = true
			}
		}
		l = listedClaims{at: time.Now(), byUID: map[types.UID]*corev1.PersistentVolumeClaim{}}
		err := live.EachClaimIn(ctx, m.Client, ref.Namespace, func(c *corev1.PersistentVolumeClaim) bool {
			if wanted[c.UID] {
				l.byUID[c.UID] = contract.Slim(c)
			}
			return true
		})
		if err != nil {
			return nil, readError("list the claims of namespace "+ref.Namespace, err)
		}
		m.listed[ref.Namespace] = l
	}
	return l.byUID[ref.UID], nil
}

// localUsers returns a function that returns a pod of this node that uses a claim. It
// lists the pods once, at the first call. With --migrate-used it always returns "".
func (m *Migrator) localUsers(ctx context.Context) func(*corev1.PersistentVolumeClaim) (string, error) {
	if m.Used {
		return func(*corev1.PersistentVolumeClaim) (string, error) { return "", nil }
	}
	list := sync.OnceValues(func() (map[string]string, error) {
		users := map[string]string{}
		err := live.EachPod(ctx, m.Client, metav1.NamespaceAll, fields.OneTermEqualSelector("spec.nodeName", m.Node),
			func(pod *corev1.Pod) bool {
				maps.Copy(users, contract.ClaimUsers([]corev1.Pod{*pod}))
				return true
			})
		if err != nil {
			return nil, readError("list the pods of node "+m.Node, err)
		}
		return users, nil
	})
	return func(c *corev1.PersistentVolumeClaim) (string, error) {
		all, err := list()
		return all[c.Namespace+"/"+c.Name], err
	}
}

// remoteUsers returns a function that returns a pod of another node that uses a claim.
// It lists the pods of each namespace once.
func (m *Migrator) remoteUsers(ctx context.Context) func(*corev1.PersistentVolumeClaim) (string, error) {
	listed := map[string]map[string]string{}
	return func(c *corev1.PersistentVolumeClaim) (string, error) {
		users, ok := listed[c.Namespace]
		if !ok {
			users = map[string]string{}
			err := live.EachPod(ctx, m.Client, c.Namespace, fields.OneTermNotEqualSelector("spec.nodeName", m.Node),
				func(pod *corev1.Pod) bool {
					for claim := range contract.ClaimUsers([]corev1.Pod{*pod}) {
						if pod.Spec.NodeName != "" && users[claim] == "" {
							users[claim] = fmt.Sprintf("pod %s/%s on node %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
						}
					}
					return true
				})
			if err != nil {
				return "", readError("list the pods of namespace "+c.Namespace, err)
			}
			listed[c.Namespace] = users
		}
		return users[c.Namespace+"/"+c.Name], nil
	}
}
