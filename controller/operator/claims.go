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
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// Any user can create claims, and the operator caches those of all namespaces, as it does the PVs of
// all drivers. So it lists both in small pages, and keeps only what it reads.

// informers makes the informers of the cache.
func (s Settings) informers(api kubernetes.Interface, pvs *installed.SlimPVs) func(cache.ListerWatcher,
	runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer {
	return func(lw cache.ListerWatcher, of runtime.Object, resync time.Duration,
		by cache.Indexers) cache.SharedIndexInformer {
		inPages := func(list func(context.Context) (runtime.Object, error)) cache.ListerWatcher {
			return &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
					return list(ctx)
				},
				WatchFuncWithContext: cache.ToListerWatcherWithContext(lw).WatchWithContext,
			}
		}
		switch of.(type) {
		case *corev1.PersistentVolumeClaim:
			lw = inPages(func(ctx context.Context) (runtime.Object, error) { return s.listClaims(ctx, api) })
		case *corev1.PersistentVolume:
			lw = inPages(func(ctx context.Context) (runtime.Object, error) { return listPVs(ctx, api, pvs) })
		}
		return cache.NewSharedIndexInformer(lw, of, resync, by)
	}
}

// listPVs lists all PVs as the cache keeps them.
func listPVs(ctx context.Context, api kubernetes.Interface,
	pvs *installed.SlimPVs) (*corev1.PersistentVolumeList, error) {
	kept := &corev1.PersistentVolumeList{}
	version, err := live.ListPVs(ctx, api, "", func(pv *corev1.PersistentVolume) bool {
		kept.Items = append(kept.Items, *pvs.Slim(pv))
		return true
	})
	kept.ResourceVersion = version
	return kept, err
}

// slimPV returns the transform of PVs in the cache.
func slimPV(pvs *installed.SlimPVs) cache.TransformFunc {
	return func(obj any) (any, error) {
		if pv, ok := obj.(*corev1.PersistentVolume); ok {
			return pvs.Slim(pv), nil
		}
		return obj, nil
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
