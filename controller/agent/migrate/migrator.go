package migrate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// pace is the least pause between two checks.
	pace = time.Second
	// batch is the number of migrations that begin between two checks, and batchFor is when no
	// other one begins: a webhook may take long to answer, and open migrations wait.
	batch    = 32
	batchFor = 30 * time.Second
)

// checkEvery is the pause between two checks if no PV changes; the agent does not watch pods.
var checkEvery = timing.Scaled(15 * time.Second)

// PVs is what a Migrator needs of the node's PVs.
type PVs interface {
	Provisioners
	// Validate returns the volume of a PV of this node, and its pool, if the agent accepts both,
	// also during a migration. The error is an ErrNotReady if the pool is not ready, and an
	// ErrNotFound if the volume has no record yet. After any other error the caller ignores the PV.
	// With fresh the Nodes that it depends on are read from the API server.
	Validate(ctx context.Context, pv *corev1.PersistentVolume, fresh bool) (*volume.Pool, volume.Volume, error)
	// All returns the saved PVs of this node, from memory.
	All() []*corev1.PersistentVolume
	// Migratable returns the PVs of this node that other provisioners created and that
	// can be taken over. They may be some minutes old. Validate accepts them too;
	// before Adopt creates a record, with the journal, such a volume has no state.
	Migratable() []*corev1.PersistentVolume
	Adopt(*corev1.PersistentVolume, record.Migration) (*volume.Pool, record.Record, error)
	// SweepSoon causes a list of the PVs without this provisioner's label soon.
	SweepSoon()
}

// Events records Warnings and Normal events (Note), once for each topic.
type Events interface {
	Warn(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
	Note(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
}

// Config is the configuration of a Migrator. New validates it.
type Config struct {
	Client kubernetes.Interface
	Node   string // the Node's name
	Pools  *volume.Pools
	Driver string // of the new PVs
	PVs    PVs
	Events Events
	Mode   settings.MigrateMode
	// Used migrates volumes that pods use, too. Without it they wait.
	Used bool
	// Step, if not nil, gets the name of every write to the API server before it. Tests stop there.
	Step func(string)
}

// Migrator migrates the volumes of one node. Make it with New; call Run once.
type Migrator struct {
	Config

	claims   cache.Store             // set by Run
	refusals map[string]refusal      // by the PV's name; only Run uses it
	listed   map[string]listedClaims // by namespace; only Run uses it
	served   time.Time               // when CSI PVs could be used here last; only Run uses it
	wake     chan struct{}
	report   atomic.Pointer[Report]
	// stranded is why the migrations past their point of no return cannot be finished by
	// this agent, nil if all can.
	stranded atomic.Pointer[string]
}

// New returns a Migrator. The error names what is missing.
func New(c Config) (*Migrator, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("configure the migration: a client is required")
	case c.Node == "":
		return nil, errors.New("configure the migration: the node's name is required")
	case c.Pools == nil || c.PVs == nil || c.Events == nil:
		return nil, errors.New("configure the migration: pools, the provisioning loop and a recorder of events are required")
	case c.Driver == "":
		return nil, errors.New("configure the migration: the CSI driver's name is required")
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	m := &Migrator{Config: c, wake: make(chan struct{}, 1),
		refusals: map[string]refusal{}, listed: map[string]listedClaims{}}
	m.report.Store(&Report{Node: m.Node, Mode: m.Mode})
	return m, nil
}

// Report returns the plan of the last check.
func (m *Migrator) Report() Report { return *m.report.Load() }

// Run migrates volumes until the context ends. The caller runs the informers of this node's claims
// and PVs. They only show what to check; before a write, Run reads the objects from the API server.
func (m *Migrator) Run(ctx context.Context, claims, pvs cache.SharedIndexInformer) {
	m.claims = claims.GetStore()
	if m.Mode != settings.MigrateOff {
		if _, err := pvs.AddEventHandler(informers.OnChange(func(any) { sleep.Wake(m.wake) })); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot watch PVs; nothing is migrated")
			return
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), claims.HasSynced) {
		return
	}
	for {
		all := m.check(ctx)
		m.publish(ctx, all)
		m.work(ctx, all)
		if !sleep.For(ctx, pace) || !sleep.OrWoken(ctx, checkEvery, m.wake) {
			return
		}
	}
}

// publish stores the plan, and logs it if it changed.
func (m *Migrator) publish(ctx context.Context, all []candidate) {
	r := &Report{Node: m.Node, Mode: m.Mode, Checked: time.Now()}
	for _, f := range all {
		r.Entries = append(r.Entries, f.Entry)
	}
	before := m.report.Swap(r)
	if m.Mode == settings.MigrateOff || slices.Equal(before.Entries, r.Entries) {
		return
	}
	var table strings.Builder
	if err := r.Print(&table); err == nil {
		// One message a line, because the log escapes line breaks.
		for line := range strings.Lines(table.String()) {
			klog.FromContext(ctx).Info("Migration: " + strings.TrimSpace(line))
		}
	}
}

// work continues the migrations in progress, and then begins others. If one of them cannot go on
// past the deletion of its old PV, it begins none, so that the cause does not affect all claims.
func (m *Migrator) work(ctx context.Context, all []candidate) {
	m.forgetRefusals(all)
	var open, ready []candidate
	for _, f := range all {
		switch {
		case f.elsewhere:
			m.endElsewhere(ctx, f)
		case f.job != nil:
			open = append(open, f)
		case f.Verdict == Stopped:
			m.unreadable(ctx, f)
		case (f.Verdict == Ready || f.retry) && moves(m.Mode) && len(ready) < batch:
			ready = append(ready, f)
		}
	}
	went := m.migrate(ctx, open)
	m.noteStranded(open)
	if went {
		m.migrate(ctx, ready)
	}
}

func (m *Migrator) forgetRefusals(all []candidate) {
	for name := range m.refusals {
		if !slices.ContainsFunc(all, func(f candidate) bool { return f.PV == name }) {
			delete(m.refusals, name)
		}
	}
}

// migrate migrates volumes one after another. It begins no further migration after batchFor. If one
// cannot go on past the deletion of its old PV, it begins no further one either, and returns false.
func (m *Migrator) migrate(ctx context.Context, all []candidate) (went bool) {
	went = true
	begin := time.Now()
	for _, f := range all {
		if ctx.Err() != nil {
			return false
		}
		if f.job == nil && (!went || time.Since(begin) > batchFor) {
			continue
		}
		if errors.Is(m.one(ctx, f), errHalfway) {
			went = false
		}
	}
	return went
}

// one migrates a volume, or continues its migration. It logs errors that the next check may not
// have. The error is an errHalfway if the old PV may be gone and the migration is not over.
func (m *Migrator) one(ctx context.Context, f candidate) (err error) {
	j := f.job
	if j == nil {
		f, err = m.prepare(ctx, f)
		if err = cmp.Or(err, ctx.Err()); err == nil {
			j, err = m.begin(f)
		}
	}
	if err == nil {
		err = m.move(ctx, j)
	}
	if err == nil || errors.Is(err, errCancelled) {
		return err
	}
	if ctx.Err() == nil && !errors.Is(err, errStopped) {
		klog.FromContext(ctx).Error(err, "Cannot migrate a volume; trying again", "PV", f.PV)
	}
	if j != nil && j.step == record.MigrationCutover {
		err = errors.Join(errHalfway, err)
	}
	return err
}

var volumesDesc = prometheus.NewDesc("kubevirt_hpp_migration_volumes",
	"Number of volumes whose PV is or was a hostPath PV, by the verdict of the last migration check.", []string{"verdict"},
	nil)

// Describe implements prometheus.Collector.
func (m *Migrator) Describe(out chan<- *prometheus.Desc) { out <- volumesDesc }

// Collect implements prometheus.Collector. It exports the last check.
func (m *Migrator) Collect(out chan<- prometheus.Metric) {
	counts := m.Report().counts()
	for _, v := range verdicts {
		out <- prometheus.MustNewConstMetric(volumesDesc, prometheus.GaugeValue, float64(counts[v]), string(v))
	}
}
