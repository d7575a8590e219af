package provision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// watchPVs returns an informer of the PVs that carry this node's label.
func watchPVs(client kubernetes.Interface, node string) cache.SharedIndexInformer {
	selector := labels.Set{class.LabelNode: class.LabelValue(node)}.String()
	pvs := client.CoreV1().PersistentVolumes()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return pvs.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return pvs.Watch(ctx, o)
		},
	}
	return cache.NewSharedIndexInformer(lw, &corev1.PersistentVolume{}, resync, cache.Indexers{})
}

// watchClasses returns an informer of all classes; a cluster has few.
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
	return cache.NewSharedIndexInformer(lw, &storagev1.StorageClass{}, resync, cache.Indexers{})
}
