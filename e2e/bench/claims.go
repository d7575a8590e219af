package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	// clients create or delete claims in parallel.
	clients = 32
	// patience is the time after which a claim fails the measurement.
	patience = 3 * time.Minute
)

// claimOf returns a claim that the subject serves on the node.
func claimOf(s *subject, node string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: s.name + "-", Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &s.class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(cmp.Or(s.size, "1Mi"))},
			},
		},
	}
	if s.from != "" {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: s.from}
	}
	if s.shape == shapeHostPath {
		c.Annotations[harness.AnnProvisionOnNode] = node
	} else {
		c.Annotations[harness.AnnSelectedNode] = node
	}
	return c
}

// create creates n claims in parallel, waits until all are bound, and returns their times.
func (l *lab) create(ctx context.Context, r *running, n int) (lives, error) {
	return l.createSpread(ctx, r.subject, func(int) string { return r.node }, n)
}

// createSpread is as create, with a node for each claim.
func (l *lab) createSpread(ctx context.Context, s *subject, node func(i int) string, n int) (lives, error) {
	all := make(lives, n)
	err := together(n, func(i int) error {
		begin := time.Now()
		claim := claimOf(s, node(i))
		if s.scheduled {
			claim.Annotations = nil
		}
		c, err := l.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
		if err == nil && s.scheduled {
			err = l.schedule(ctx, c, node(i))
		}
		if err != nil {
			return err
		}
		all[i] = l.watch.life(c.UID)
		l.watch.change(func() { all[i].name, all[i].created, all[i].early = c.Name, begin, s.early })
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("create claims: %w", err)
	}
	if err := l.watch.await(ctx, all, func(f *life) bool { return !f.bound.IsZero() }); err != nil {
		return nil, fmt.Errorf("%s: claims of class %s bound: %w", s.name, s.class, err)
	}
	return all, nil
}

// schedule sets the node as the scheduler does.
func (l *lab) schedule(ctx context.Context, c *corev1.PersistentVolumeClaim, node string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, harness.AnnSelectedNode, node)
	_, err := l.client.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, c.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	return err
}

// remove deletes the claims in parallel and waits until their PVs are gone.
func (l *lab) remove(ctx context.Context, all lives) error {
	err := together(len(all), func(i int) error {
		begin := time.Now()
		l.watch.change(func() { all[i].asked = begin })
		return l.client.CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, all[i].name, metav1.DeleteOptions{})
	})
	if err != nil {
		return fmt.Errorf("delete claims: %w", err)
	}
	if err := l.watch.await(ctx, all, func(f *life) bool { return !f.gone.IsZero() }); err != nil {
		return fmt.Errorf("PVs gone: %w", err)
	}
	return nil
}

// oneByOne creates n claims of each subject in turn, each after the one before is bound, and then
// deletes all in parallel.
func (l *lab) oneByOne(ctx context.Context, n int, subjects ...*running) ([]lives, error) {
	all := make([]lives, len(subjects))
	for turn := range n {
		for i := range subjects {
			i = (i + turn) % len(subjects) // so that the order of the subjects varies
			one, err := l.create(ctx, subjects[i], 1)
			if err != nil {
				return nil, subjects[i].blame(err)
			}
			all[i] = append(all[i], one...)
			time.Sleep(50 * time.Millisecond) // so that work after the binding does not load the next claim
		}
	}
	for i, r := range subjects {
		if err := l.remove(ctx, all[i]); err != nil {
			return nil, r.blame(err)
		}
	}
	return all, nil
}

// together calls f for 0 to n-1, by some clients in parallel.
func together(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	next := make(chan int)
	for range min(n, clients) {
		wg.Go(func() {
			for i := range next {
				errs[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

// life has the times of one claim as this process observed them. Its watcher guards it.
type life struct {
	uid     types.UID
	name    string
	early   bool // see subject
	created time.Time
	seen    time.Time // on the watch
	named   time.Time // the controller-manager's annotation, on the watch
	saved   time.Time // the PV, on the watch
	bound   time.Time
	asked   time.Time // when its deletion was requested
	gone    time.Time // the PV
}

// took returns the time for which the claim's user waits.
func (f *life) took() time.Duration { return f.bound.Sub(f.created) }

// share returns the time from when a provisioner can see the claim, named by the controller-manager
// or not, to its PV.
func (f *life) share() time.Duration { return f.saved.Sub(f.seen) }

// ready returns when the provisioner may act. One that need not wait for the annotation may have
// saved the PV before it.
func (f *life) ready() time.Time {
	if f.early || f.named.IsZero() {
		return f.seen
	}
	return f.named
}

// lives are the claims of one batch.
type lives []*life

// rate returns how many claims a second were bound, from the first request to the last binding.
func (all lives) rate() float64 {
	return perSecond(all, func(f *life) time.Time { return f.created }, func(f *life) time.Time { return f.bound })
}

// deletes returns how many claims a second were deleted.
func (all lives) deletes() float64 {
	return perSecond(all, func(f *life) time.Time { return f.asked }, func(f *life) time.Time { return f.gone })
}

func perSecond(all lives, begin, end func(*life) time.Time) float64 {
	first, last := begin(all[0]), end(all[0])
	for _, f := range all {
		if t := begin(f); t.Before(first) {
			first = t
		}
		if t := end(f); t.After(last) {
			last = t
		}
	}
	return float64(len(all)) / last.Sub(first).Seconds()
}

// each returns one time of all lives.
func (all lives) each(of func(*life) time.Duration) sample {
	var s sample
	for _, f := range all {
		s = append(s, of(f).Seconds()*1000)
	}
	return s
}
