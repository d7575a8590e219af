package operator

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// Any user can create claims, and the operator caches those of all namespaces. So it lists them in
// small pages, and keeps only what it reads.

// informers makes the informers of the cache.
func (s Settings) informers(api kubernetes.Interface) func(cache.ListerWatcher, runtime.Object, time.Duration,
	cache.Indexers) cache.SharedIndexInformer {
	return func(lw cache.ListerWatcher, of runtime.Object, resync time.Duration,
		by cache.Indexers) cache.SharedIndexInformer {
		if _, claims := of.(*corev1.PersistentVolumeClaim); claims {
			lw = &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
					return s.listClaims(ctx, api)
				},
				WatchFuncWithContext: cache.ToListerWatcherWithContext(lw).WatchWithContext,
			}
		}
		return cache.NewSharedIndexInformer(lw, of, resync, by)
	}
}

// listClaims lists the claims of all namespaces as the cache keeps them.
func (s Settings) listClaims(ctx context.Context, api kubernetes.Interface) (*corev1.PersistentVolumeClaimList, error) {
	kept := &corev1.PersistentVolumeClaimList{}
	version, err := live.ListClaims(ctx, api, func(claim *corev1.PersistentVolumeClaim) bool {
		kept.Items = append(kept.Items, *s.slim(claim))
		return true
	})
	kept.ResourceVersion = version
	return kept, err
}

// slimClaim is the transform of claims in the cache.
func (s Settings) slimClaim(obj any) (any, error) {
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
		return s.slim(claim), nil
	}
	return obj, nil
}

// slim returns what the cache keeps of a claim. Claims of the operator's own namespace, in which no
// tenant creates any, may be those of pools, and are kept but for their managed fields.
func (s Settings) slim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	if claim.Namespace != s.Namespace {
		return contract.Slim(claim)
	}
	claim.ManagedFields = nil
	return claim
}
