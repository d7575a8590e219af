package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	// every is how often all PVs are looked at where nothing happened: pods
	// come and go unseen.
	every = 15 * time.Second
	// pace is the least pause between two looks.
	pace = time.Second
	// batch is how many are begun before all are looked at again.
	batch = 32
)

// Loop is the claim loop, as far as it is needed here.
type Loop interface {
	// Examine returns the volume of a PV of this node, and its pool, where the
	// loop takes both for its own, also while a migration is under way. The
	// error is an ErrNotReady where the pool is not ready, an ErrNotFound where
	// the volume has no record yet; any other means that the PV is to be left
	// alone.
	Examine(*corev1.PersistentVolume) (*volume.Pool, volume.Volume, error)
	// PVs are the saved PVs of this node, from memory.
	PVs() []*corev1.PersistentVolume
	// Others are PVs of this node that other provisioners made and that may be
	// taken over, some minutes old. Examine knows them as well; the volume of one
	// has no state before Adopt gives its directory a record.
	Others() []*corev1.PersistentVolume
	Adopt(context.Context, *corev1.PersistentVolume) error
	// Unknown has PVs that carry no label of ours looked for soon.
	Unknown()
}

// Events records Warnings, and Notes of what is no fault, once for each topic.
type Events interface {
	Warn(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
	Note(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
}

// Config is what a migrator needs. New checks it.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name
	Pools  *volume.Pools
	Driver string // of the new PVs
	Loop   Loop
	Events Events
	Mode   Mode
	// Used moves volumes that pods use as well; else they wait.
	Used bool
	// Workers move volumes at the same time; 0 means 1.
	Workers int
	// Step is called before every write to the API server, with its name; may be
	// nil.
	Step func(string)
}

// Migrator moves the volumes of one node. Make it with New, then Run it once.
type Migrator struct {
	client  kubernetes.Interface
	name    string // the Node's
	pools   *volume.Pools
	driver  string
	loop    Loop
	events  Events
	mode    Mode
	used    bool
	workers int
	step    func(string)

	claims cache.Store // set by Run
	wake   chan struct{}
	report atomic.Pointer[Report]
}

// New returns a migrator that does nothing until it is Run.
func New(c Config) (*Migrator, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("migrate: a client is required")
	case c.Node == "":
		return nil, errors.New("migrate: the node's name is required")
	case c.Pools == nil || c.Loop == nil || c.Events == nil:
		return nil, errors.New("migrate: pools, the claim loop and a recorder of events are required")
	case c.Driver == "":
		return nil, errors.New("migrate: the CSI driver's name is required")
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	m := &Migrator{
		client: c.Client, name: c.Node, pools: c.Pools, driver: c.Driver, loop: c.Loop, events: c.Events, mode: c.Mode, used: c.Used,
		workers: max(1, c.Workers), step: c.Step, wake: make(chan struct{}, 1),
	}
	m.report.Store(&Report{Node: m.name, Mode: m.mode})
	return m, nil
}

// Report returns the last look at all PVs.
func (m *Migrator) Report() Report { return *m.report.Load() }

// Run moves volumes until the context ends. The informers, of this node's
// claims and of its PVs, are run by the caller. What they have tells where to
// look; it is acted upon only as the API server has it.
func (m *Migrator) Run(ctx context.Context, claims, pvs cache.SharedIndexInformer) {
	m.claims = claims.GetStore()
	if m.mode != Off {
		if err := m.watch(pvs); err != nil {
			klog.FromContext(ctx).Error(err, "Nothing is migrated: cannot watch PVs")
			return
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), claims.HasSynced) {
		return
	}
	for {
		all := m.look(ctx)
		m.publish(ctx, all)
		m.work(ctx, all)
		if !sleep.For(ctx, pace) || !sleep.OrWoken(ctx, every, m.wake) {
			return
		}
	}
}

// watch looks at all PVs soon after one of them changed.
func (m *Migrator) watch(pvs cache.SharedIndexInformer) error {
	wake := func() { sleep.Wake(m.wake) }
	_, err := pvs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		UpdateFunc: func(any, any) { wake() },
		DeleteFunc: func(any) { wake() },
	})
	return err
}

// publish keeps the answers, and logs them where they are other than before.
func (m *Migrator) publish(ctx context.Context, all []found) {
	r := &Report{Node: m.name, Mode: m.mode}
	for _, f := range all {
		r.Entries = append(r.Entries, f.Entry)
	}
	before := m.report.Swap(r)
	if m.mode == Off || slices.Equal(before.Entries, r.Entries) {
		return
	}
	var table strings.Builder
	if err := r.Print(&table); err == nil {
		// A line each: the log would write a line break as \n.
		for line := range strings.Lines(table.String()) {
			klog.FromContext(ctx).Info("Migration: " + strings.TrimSpace(line))
		}
	}
}

// work moves what can be moved, those under way first. Where one is not bound
// again, no other is begun: what keeps one claim from its pods must not keep all.
func (m *Migrator) work(ctx context.Context, all []found) {
	m.tidy(ctx, all)
	var open, ready []found
	for _, f := range all {
		switch {
		case f.job != nil:
			open = append(open, f)
		case f.Verdict == Ready && m.mode.moves() && len(ready) < batch:
			ready = append(ready, f)
		}
	}
	if m.together(ctx, open) {
		m.together(ctx, ready)
	}
}

// together moves volumes, as many at a time as there are workers. It stops, and
// returns false, where one is not bound again.
func (m *Migrator) together(ctx context.Context, all []found) bool {
	queue := make(chan found)
	var unbound atomic.Bool
	var workers sync.WaitGroup
	for range m.workers {
		workers.Go(func() {
			for f := range queue {
				if ctx.Err() == nil && (f.job != nil || !unbound.Load()) && errors.Is(m.one(ctx, f), errUnbound) {
					unbound.Store(true)
				}
			}
		})
	}
	for _, f := range all {
		queue <- f
	}
	close(queue)
	workers.Wait()
	return !unbound.Load() && ctx.Err() == nil
}

// one moves a volume. What keeps it from being moved is looked at again later.
func (m *Migrator) one(ctx context.Context, f found) (err error) {
	j := f.job
	if j == nil {
		if f.v.State == "" {
			f, err = m.adopt(ctx, f)
		}
		if err == nil {
			j, err = m.begin(f)
		}
	}
	if err == nil {
		err = m.move(ctx, j)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errStop) && !errors.Is(err, errGaveUp) {
		klog.FromContext(ctx).Error(err, "Cannot migrate a volume yet; trying again", "PV", f.PV)
	}
	return err
}
