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
)

// pass brings what is published in line with the classes and the pools, and
// writes only what differs. What fails keeps nothing else from being tried;
// the first error is returned, which is enough to say.
func (p *Publisher) pass(ctx context.Context) error {
	p.asked = false
	classes := p.wanted(ctx)
	ours := map[string]bool{}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		ours[objectName(p.config.Driver, p.config.Node, name)] = true
		if l, known := classes[name].level(time.Now()); known {
			failed = cmp.Or(failed, p.put(ctx, name, l))
		}
	}
	for _, obj := range p.objects.GetStore().List() {
		if o := obj.(*storagev1.CSIStorageCapacity); !ours[o.Name] {
			failed = cmp.Or(failed, p.remove(ctx, o))
		}
	}
	if !p.swept {
		err := p.sweep(ctx, ours)
		p.swept = err == nil
		failed = cmp.Or(failed, err)
	}
	return failed
}

func (p *Publisher) api() typedstoragev1.CSIStorageCapacityInterface {
	return p.config.Client.StorageV1().CSIStorageCapacities(p.config.Namespace)
}

// put publishes what the pool of a class can promise, if that is due.
func (p *Publisher) put(ctx context.Context, class string, l level) error {
	o, err := p.cached(objectName(p.config.Driver, p.config.Node, class))
	if err != nil {
		return err
	}
	if o == nil || !sameBadges(o, p.object(class, l.bytes)) {
		// The DaemonSet may be another by now, and took its objects with it.
		if err := p.findOwner(ctx); err != nil {
			return err
		}
	}
	if o == nil {
		return p.create(ctx, p.object(class, l.bytes), l)
	}
	return p.update(ctx, o, p.object(class, l.bytes), l)
}

// cached returns nil where there is no object of that name.
func (p *Publisher) cached(name string) (*storagev1.CSIStorageCapacity, error) {
	obj, ok, err := p.objects.GetStore().GetByKey(p.config.Namespace + "/" + name)
	if err != nil || !ok {
		return nil, err
	}
	return obj.(*storagev1.CSIStorageCapacity), nil
}

func (p *Publisher) create(ctx context.Context, want *storagev1.CSIStorageCapacity, l level) error {
	_, err := p.api().Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// The watch is behind, or somebody took the labels away by which the
		// object is watched.
		o, err := p.api().Get(ctx, want.Name, metav1.GetOptions{})
		if err != nil {
			return publishError(want, err)
		}
		return p.update(ctx, o, want, l)
	}
	return p.wrote(ctx, want, l, err)
}

// update writes to the object o what is wanted, where that is due. What was
// decided otherwise is remembered, so that the same is no news next time.
func (p *Publisher) update(ctx context.Context, o, want *storagev1.CSIStorageCapacity, l level) error {
	if !sameKey(o, want) {
		return p.remove(ctx, o) // and make it anew when it is gone
	}
	says, now := bytesOf(o), time.Now()
	before, known := p.written[o.Name]
	if !known {
		before.bytes = says // by the agent before us, at a time long past
	}
	if sameBadges(o, want) && !due(says, before, l, now) {
		if says == before.bytes {
			before.promised, before.ready, before.told = l.promised, l.ready, l.told
			p.written[o.Name] = before
		}
		return nil
	}
	_, err := p.api().Update(ctx, merged(o, want), metav1.UpdateOptions{})
	return p.wrote(ctx, want, l, err)
}

// wrote remembers what was written.
func (p *Publisher) wrote(ctx context.Context, want *storagev1.CSIStorageCapacity, l level, err error) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err) && p.cachedStill(want.Name):
		p.kick() // the watch is behind; it will have caught up
		return nil
	case err != nil:
		return publishError(want, err)
	}
	p.written[want.Name] = published{level: l, at: time.Now()}
	log := klog.FromContext(ctx).WithValues("class", want.StorageClassName)
	if l.ready {
		log.V(2).Info("Published what can be promised", "bytes", l.bytes)
	} else {
		log.Info("The scheduler sends no claims of this class here while its pool is not ready")
	}
	return nil
}

// cachedStill reports whether an object that is gone is still in the cache.
func (p *Publisher) cachedStill(name string) bool {
	o, _ := p.cached(name)
	return o != nil
}

func publishError(o *storagev1.CSIStorageCapacity, err error) error {
	return fmt.Errorf("publish what can be promised to class %s: %w", o.StorageClassName, err)
}

// remove deletes an object that should not be, and no other of its name.
func (p *Publisher) remove(ctx context.Context, o *storagev1.CSIStorageCapacity) error {
	err := p.api().Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.UID))})
	switch {
	case err == nil:
		klog.FromContext(ctx).Info("Removed a capacity object that should not be", "object", o.Name, "class", o.StorageClassName)
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err): // gone, or another by now
		return fmt.Errorf("remove capacity object %s of class %s: %w", o.Name, o.StorageClassName, err)
	}
	delete(p.written, o.Name)
	return nil
}
