package capacity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedstoragev1 "k8s.io/client-go/kubernetes/typed/storage/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// pass compares the objects with the classes and the pools, and writes differences. After
// an error it continues with the next object, and returns the first error.
func (p *Publisher) pass(ctx context.Context) error {
	p.ownerRead = false
	classes := p.wanted(ctx)
	own := map[string]bool{p.poolsName(): true}
	failed := p.putPools(ctx)
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		own[objectName(p.config.Driver, p.config.Node, name)] = true
		if l, known := classes[name].sample(time.Now()); known {
			failed = cmp.Or(failed, p.put(ctx, name, l))
		}
	}
	for _, obj := range p.objects.GetStore().List() {
		if o := obj.(*storagev1.CSIStorageCapacity); !own[o.Name] && !contract.OfTemplateNode(o) {
			failed = cmp.Or(failed, p.remove(ctx, o))
		}
	}
	if !p.swept {
		err := p.sweep(ctx, own)
		p.swept = err == nil
		failed = cmp.Or(failed, err)
	}
	return failed
}

func (p *Publisher) api() typedstoragev1.CSIStorageCapacityInterface {
	return p.config.Client.StorageV1().CSIStorageCapacities(p.config.Namespace)
}

// put publishes the sample of a class's pool, if that is due.
func (p *Publisher) put(ctx context.Context, class string, l sample) error {
	o, err := p.cached(objectName(p.config.Driver, p.config.Node, class))
	if err != nil {
		return err
	}
	if o == nil || !sameMetadata(o, p.object(class, l.bytes)) {
		// The DaemonSet may have been replaced, and its objects deleted with it.
		if err := p.findOwner(ctx); err != nil {
			return err
		}
	}
	if o == nil {
		return p.create(ctx, p.object(class, l.bytes), l)
	}
	return p.update(ctx, o, p.object(class, l.bytes), l)
}

// cached returns the object of that name from the informer, nil if there is none.
func (p *Publisher) cached(name string) (*storagev1.CSIStorageCapacity, error) {
	obj, ok, err := p.objects.GetStore().GetByKey(p.config.Namespace + "/" + name)
	if err != nil || !ok {
		return nil, err
	}
	return obj.(*storagev1.CSIStorageCapacity), nil
}

func (p *Publisher) create(ctx context.Context, want *storagev1.CSIStorageCapacity, l sample) error {
	_, err := p.api().Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// The watch is behind, or the object lost the labels that the watch selects.
		o, err := p.api().Get(ctx, want.Name, metav1.GetOptions{})
		if err != nil {
			return publishError(want, err)
		}
		return p.update(ctx, o, want, l)
	}
	return p.wrote(ctx, want, l, err)
}

// update writes the sample to the object o, if that is due. If not, it remembers the
// sample without its size, so that the next one is compared with it.
func (p *Publisher) update(ctx context.Context, o, want *storagev1.CSIStorageCapacity, l sample) error {
	if !sameKey(o, want) {
		return p.remove(ctx, o) // a later pass creates it again
	}
	size, now := bytesOf(o), time.Now()
	before, known := p.written[o.Name]
	if !known {
		before.bytes = size // of an earlier process; the time is zero
	}
	if sameMetadata(o, want) && !due(size, before, l, now) {
		if size == before.bytes {
			before.allocated, before.ready, before.changes = l.allocated, l.ready, l.changes
			p.written[o.Name] = before
		}
		return nil
	}
	_, err := p.api().Update(ctx, merged(o, want), metav1.UpdateOptions{})
	return p.wrote(ctx, want, l, err)
}

// wrote remembers the written sample, or returns the error of the write. If the watch is
// behind it requests another pass instead.
func (p *Publisher) wrote(ctx context.Context, want *storagev1.CSIStorageCapacity, l sample, err error) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err) && p.isCached(want.Name):
		p.requestPass()
		return nil
	case err != nil:
		return publishError(want, err)
	}
	p.written[want.Name] = published{sample: l, at: time.Now()}
	log := klog.FromContext(ctx).WithValues("class", want.StorageClassName)
	switch {
	case l.noInodes:
		log.Info("Published no available space for this class, because the filesystem of its pool has no free inodes; " +
			"remove files there")
	case l.ready:
		log.V(2).Info("Published the available space", "bytes", l.bytes)
	default:
		log.Info("Published no available space for this class, because its pool is not ready")
	}
	return nil
}

func (p *Publisher) isCached(name string) bool {
	o, _ := p.cached(name)
	return o != nil
}

func publishError(o *storagev1.CSIStorageCapacity, err error) error {
	return fmt.Errorf("publish the available space for class %s: %w", o.StorageClassName, err)
}

// remove deletes an object, by its UID.
func (p *Publisher) remove(ctx context.Context, o *storagev1.CSIStorageCapacity) error {
	err := p.api().Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.UID))})
	switch {
	case err == nil:
		klog.FromContext(ctx).Info("Deleted an outdated capacity object", "object", o.Name, "class", o.StorageClassName)
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err): // a conflict means another UID
		return fmt.Errorf("delete capacity object %s of class %s: %w", o.Name, o.StorageClassName, err)
	}
	delete(p.written, o.Name)
	return nil
}
