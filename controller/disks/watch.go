package disks

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// watch wakes the loop whenever the Node's annotation, a ConfigMap or a PV of the node changes. A
// pass reads them itself.
func (c *Controller) watch(ctx context.Context) error {
	of := func(namespace string, tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(c.Client, 0,
			informers.WithNamespace(namespace), informers.WithTweakListOptions(tweak))
	}
	node := of("", func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.node).String()
	}).Core().V1().Nodes().Informer()
	labelled := of("", func(o *metav1.ListOptions) { o.LabelSelector = c.selector() })
	pvs := labelled.Core().V1().PersistentVolumes().Informer()
	maps := of(c.Namespace, func(*metav1.ListOptions) {}).Core().V1().ConfigMaps().Informer()
	for _, informer := range []cache.SharedIndexInformer{node, pvs, maps} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { sleep.Wake(c.wake) },
			UpdateFunc: func(was, is any) { c.updated(was, is) },
			DeleteFunc: func(any) { sleep.Wake(c.wake) },
		}); err != nil {
			return err
		}
		go informer.RunWithContext(ctx)
	}
	return nil
}

// selector selects the PVs of the node by the older name of the label, which all of them have.
func (c *Controller) selector() string {
	return labels.Set{LabelNodeOlder: contract.LabelValue(c.node)}.String()
}

// updated wakes the loop, except for the changes that the kubelet makes to its Node all the time.
func (c *Controller) updated(was, is any) {
	switch is := is.(type) {
	case *corev1.Node:
		was := was.(*corev1.Node)
		if maps.Equal(was.Labels, is.Labels) && was.Annotations[AnnSpec] == is.Annotations[AnnSpec] && was.UID == is.UID {
			return
		}
	case *corev1.ConfigMap:
		if equality.Semantic.DeepEqual(was.(*corev1.ConfigMap).Data, is.Data) {
			return
		}
	}
	sleep.Wake(c.wake)
}
