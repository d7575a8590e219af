package agent

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/httpserver"
	"kubevirt.io/hostpath-provisioner/controller/migrate"
	"kubevirt.io/hostpath-provisioner/controller/monitor"
	"kubevirt.io/hostpath-provisioner/volume"
)

// changed is told by whoever makes, grows or removes a volume.
func (a *agent) changed(pool *volume.Pool) {
	a.monitors[pool].Purge()
	if a.resizer != nil {
		a.resizer.SpaceChanged()
	}
	a.tell()
}

// tell publishes what can be promised now, in every pool: what one promised is
// gone from the others of its filesystem.
func (a *agent) tell() {
	if a.publisher == nil {
		return
	}
	for _, pool := range a.pools.All() {
		a.publisher.Changed(pool)
	}
}

// unknown is told by the driver that it has to mount what has no record.
func (a *agent) unknown() {
	if a.pvs != nil {
		a.pvs.SweepSoon()
	}
}

// looked is told by a keeper whose pool is ready or not ready any more, or got
// space back.
func (a *agent) looked() {
	if a.loop != nil {
		a.loop.PoolChanged()
		a.resizer.SpaceChanged()
	}
	a.tell()
}

// beside is run by the loop, which shows what it watches.
func (a *agent) beside(ctx context.Context, claims, pvs cache.SharedIndexInformer) {
	var wg sync.WaitGroup
	wg.Go(func() { a.resizer.Run(ctx, claims, pvs) })
	if a.migrator != nil {
		wg.Go(func() { a.migrator.Run(ctx, claims, pvs) })
	}
	wg.Go(func() { a.orphans.Run(ctx, pvs) })
	wg.Go(func() { giveBack(ctx, claims) })
	wg.Wait()
}

// giveBack returns to the kernel what the first list of all claims took, as soon
// as it is read. An agent never again needs as much at once, and the runtime
// would take minutes.
func giveBack(ctx context.Context, claims cache.SharedIndexInformer) {
	if cache.WaitForCacheSync(ctx.Done(), claims.HasSynced) {
		debug.FreeOSMemory()
	}
}

// keep looks after the pools, which were opened, until the context ends.
func (a *agent) keep(ctx context.Context) {
	var wg sync.WaitGroup
	for _, k := range a.monitors {
		wg.Go(func() { k.Run(ctx) })
	}
	wg.Go(func() { a.volumes.Run(ctx) })
	wg.Wait()
}

// parts returns what runs until the end. Addresses and sockets are opened here,
// so that one that cannot be is an error at start. The sockets come last: on
// them others call.
func (a *agent) parts() ([]func(context.Context) error, error) {
	var parts []func(context.Context) error
	if a.loop != nil {
		parts = append(parts, a.loop.Run)
	} else {
		parts = append(parts, func(ctx context.Context) error { a.keep(ctx); return nil })
	}
	if a.publisher != nil {
		parts = append(parts, a.publish)
	}
	var plan func() migrate.Report
	if a.migrator != nil {
		plan = a.migrator.Report
	}
	addresses, err := a.listen(newRegistry(a.collectors()...), a.checks(), func(next http.Handler) http.Handler { return WithPlan(plan, next) }, a.client)
	if err != nil {
		return nil, err
	}
	profiles, err := a.pprof.listen()
	if err != nil {
		return nil, err
	}
	parts = append(append(parts, addresses...), profiles...)
	if a.driver == nil {
		return parts, nil
	}
	sockets, err := a.options.driver.listen(a.driver, a.kubelet)
	return append(parts, sockets...), err
}

// publish tells the scheduler what it may know, after the claim loop, without
// which there is no publisher, has let others ask the API server.
func (a *agent) publish(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.loop.Started():
		return a.publisher.Run(ctx)
	}
}

// checks are the lines of /readyz.
func (a *agent) checks() (all []httpserver.Check) {
	if a.loop != nil {
		all = append(all, httpserver.Check{Name: "api", Err: a.loop.Ready})
	}
	if a.publisher != nil {
		all = append(all, httpserver.Check{Name: "capacity", Err: a.publisher.Ready})
	}
	for _, p := range a.pools.All() {
		all = append(all, httpserver.Check{Name: "pool " + p.Path(), Err: p.Ready})
	}
	if a.kubelet != nil {
		all = append(all, httpserver.Check{Name: "kubelet", Err: a.kubelet.Ready})
	}
	return all
}

// collectors are the parts of /metrics.
func (a *agent) collectors() []prometheus.Collector {
	all := []prometheus.Collector{buildInfo(a.version), monitor.NewCollector(a.pools.All(), monitor.SharedWithOS), a.probes, a.volumes}
	if a.orphans != nil {
		all = append(all, a.orphans)
	}
	if a.metrics.volumes {
		all = append(all, monitor.NewVolumeCollector(a.pools.All()))
	}
	if a.driver != nil {
		all = append(all, a.driver.Metrics())
	}
	if a.migrator != nil {
		all = append(all, a.migrator)
	}
	if m := a.library; a.loop != nil {
		all = append(all,
			m.PersistentVolumeClaimProvisionTotal, m.PersistentVolumeClaimProvisionFailedTotal,
			m.PersistentVolumeClaimProvisionDurationSeconds, m.PersistentVolumeDeleteTotal,
			m.PersistentVolumeDeleteFailedTotal, m.PersistentVolumeDeleteDurationSeconds)
		all = append(append(all, a.loop.Metrics(), a.resizer.Metrics()), a.requests.Collectors()...)
	}
	return all
}

// buildInfo returns the collector of kubevirt_hpp_build_info. client_golang's own needs
// text/template, with which the linker keeps every exported method of the program.
func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubevirt_hpp_build_info",
		Help: "Always 1; the labels describe the build of the agent.",
		ConstLabels: prometheus.Labels{
			"version": version, "goversion": runtime.Version(), "goos": runtime.GOOS, "goarch": runtime.GOARCH,
		},
	}, func() float64 { return 1 })
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// runTogether runs the parts until the context ends or one of them fails,
// and returns the first failure.
func runTogether(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	errs := make(chan error, len(parts))
	for _, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				errs <- err
				cancel(err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
