package claims

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
)

// watchClasses returns an informer of all classes, which the caller runs. A cluster
// has few classes, so they are not filtered.
func watchClasses(client kubernetes.Interface) cache.SharedIndexInformer {
	classes := client.StorageV1().StorageClasses()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return classes.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return classes.Watch(ctx, o)
		},
	}
	return informers.New(lw, &storagev1.StorageClass{}, Resync)
}
