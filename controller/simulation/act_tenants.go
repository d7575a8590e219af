package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tenantActs are what happens to the namespace of the claims.
var tenantActs = []act{
	{words: "namespace again", usage: "the tenant's namespace is deleted with its claims, and made again for another tenant", weight: 2,
		next: []string{"claim again", "undelete", "undelete to", "recover"},
		draw: func(*World) []string { return []string{} },
		do:   func(w *World, _ []string) bool { return w.nextTenant() }},
}

// makeTenant makes the namespace of the claims.
func (w *World) makeTenant() {
	made := must1(w.god.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, metav1.CreateOptions{}))
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	w.judge.tenant = made.UID
}

func (w *World) tenantUID() types.UID {
	return must1(w.god.CoreV1().Namespaces().Get(ctx, tenant, metav1.GetOptions{})).UID
}

// nextTenant deletes the namespace, waits until all that was in it is gone, and makes it again.
func (w *World) nextTenant() bool {
	for _, c := range must1(w.god.CoreV1().PersistentVolumeClaims(tenant).List(ctx, metav1.ListOptions{})).Items {
		w.deleteClaim(c.Name)
	}
	namespaces := w.god.CoreV1().Namespaces()
	must(namespaces.Delete(ctx, tenant, metav1.DeleteOptions{}))
	for began := time.Now(); ; w.sleep(5 * time.Second) {
		w.API.Empty("god", tenant)
		if _, err := namespaces.Get(ctx, tenant, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		if time.Since(began) > time.Hour {
			w.judge.blame("STUCK", "a namespace is not gone an hour after its deletion")
			return true
		}
	}
	w.makeTenant()
	return true
}

// sameTenant judges that a volume which comes back is for the tenant that it had. A restore of etcd brings
// an earlier tenant back, and no record has the namespace's UID. The caller holds the lock.
func (j *judge) sameTenant(v *volume, how string) {
	if v.tenant != j.tenant && !j.older {
		j.blameLocked("BYTES", "the volume of claim %s is %s for another tenant of its namespace", v.name, how)
	}
}
