package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/localpath"
	"kubevirt.io/hostpath-provisioner/controller/agent/migrate"
	"kubevirt.io/hostpath-provisioner/controller/agent/monitor"
	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/volume"
)

// changed is called after a volume was created, grown or deleted: it empties the trash of the
// pool, retries resizes and publishes the capacity.
func (a *Agent) changed(pool *volume.Pool) {
	a.monitors[pool].Purge()
	if a.resizer != nil {
		a.resizer.SpaceChanged()
	}
	a.publishCapacity()
}

// publishCapacity publishes the available space of every pool: what one pool allocates, the others
// on its filesystem lose.
func (a *Agent) publishCapacity() {
	if a.publisher == nil {
		return
	}
	for _, pool := range a.pools.All() {
		a.publisher.Changed(pool)
	}
}

// unknown is called by the driver if it is asked to mount a directory without a record.
func (a *Agent) unknown() {
	if a.pvs != nil {
		a.pvs.SweepSoon()
	}
}

// unpublished is called by the driver after it unmounted a volume from a pod's directory.
func (a *Agent) unpublished(volume string) {
	if a.loop != nil {
		a.loop.Unpublished(volume)
	}
}

// poolChanged is called by a monitor if its pool becomes ready or not ready, or regains space.
func (a *Agent) poolChanged() {
	if a.loop != nil {
		a.loop.PoolChanged()
		a.resizer.SpaceChanged()
	}
	a.publishCapacity()
}

// beside runs the controllers that share the informers of the provisioning loop: those of this
// node's claims, which are prepared copies, and of its PVs.
func (a *Agent) beside(ctx context.Context, claims, pvs cache.SharedIndexInformer) {
	var wg sync.WaitGroup
	wg.Go(func() { a.resizer.Run(ctx, claims, pvs) })
	if a.migrator != nil {
		wg.Go(func() { a.migrator.Run(ctx, claims, pvs) })
	}
	if a.onlyNode != nil {
		wg.Go(func() { a.onlyNode.Run(ctx) })
	}
	if a.original != nil {
		wg.Go(func() { a.original.Run(ctx) })
	}
	if a.seen != nil {
		wg.Go(func() { a.seen.Run(ctx) })
	}
	wg.Go(func() { a.orphans.Run(ctx, pvs) })
	wg.Go(func() { freeListMemory(ctx, claims) })
	wg.Wait()
}

// freeListMemory returns the memory of the first list of all claims to the kernel once the list is
// read. The agent never needs as much again, and the runtime would take minutes.
func freeListMemory(ctx context.Context, claims cache.SharedIndexInformer) {
	if cache.WaitForCacheSync(ctx.Done(), claims.HasSynced) {
		debug.FreeOSMemory()
	}
}

// runMonitors monitors pools and volumes until the context ends. The caller has opened the pools.
func (a *Agent) runMonitors(ctx context.Context) {
	var wg sync.WaitGroup
	for _, m := range a.monitors {
		wg.Go(func() { m.Run(ctx) })
	}
	wg.Go(func() { a.volumes.Run(ctx) })
	wg.Wait()
}

// run runs the parts, which are those of the agent and those that listen, until the context ends.
func (a *Agent) run(ctx context.Context, parts []func(context.Context) error) error {
	log := klog.FromContext(ctx).WithValues("node", a.nodeName)
	if a.driverOnly() {
		// The provisioning loop would open them, once it knows the PVs. Later calls retry a pool
		// that fails here, and its monitor reports it.
		a.pools.Open()
	}
	a.group = newGroup(klog.NewContext(ctx, log))
	for _, part := range parts {
		a.group.Go(part)
	}
	if err := a.group.Wait(); !errors.Is(err, localpath.ErrChanged) {
		return err
	}
	log.Info("The configuration changed; the next start reads it")
	return nil
}

// parts returns the functions that run until the agent ends and listen nowhere.
func (a *Agent) parts() (parts []func(context.Context) error) {
	if a.loop != nil {
		parts = append(parts, a.serveClaims)
	} else {
		parts = append(parts, func(ctx context.Context) error { a.runMonitors(ctx); return nil })
	}
	if a.publisher != nil {
		parts = append(parts, a.publish)
	}
	if a.localPath.file != nil {
		parts = append(parts, a.follow)
	}
	return parts
}

// listen opens addresses and sockets, so that one that cannot be opened is an error at start, and
// returns the functions that serve them. The sockets come last: the kubelet calls as soon as they
// exist.
func (a *Agent) listen() ([]func(context.Context) error, error) {
	gatherer := newRegistry(a.collectors()...)
	parts, err := a.Options.listen(gatherer, a.handler(gatherer))
	if err != nil {
		return nil, err
	}
	profiles, err := a.pprof.listen()
	if err != nil {
		return nil, err
	}
	parts = append(parts, profiles...)
	if a.driver == nil {
		return parts, nil
	}
	sockets, err := a.Options.driver.listen(a.driver, a.kubelet)
	return append(parts, sockets...), err
}

// Handler returns what --http-address serves. Requests for orphans and for the plan must be from a
// loopback address.
func (a *Agent) Handler() http.Handler { return a.handler(newRegistry(a.collectors()...)) }

func (a *Agent) handler(gatherer prometheus.Gatherer) http.Handler {
	if a.metrics.tokens {
		gatherer = nil // without TLS, others could read the token
	}
	next := httpserver.Handler(gatherer, a.checks())
	if a.orphans != nil {
		next = WithOrphans(a.orphans, a.pvs, next)
		next = WithRecovery(a.Recovery(), next)
		next = WithTrash(a.Undeleter(), next)
	}
	var plan func() migrate.Report
	if a.migrator != nil {
		plan = a.migrator.Report
	}
	return WithPlan(plan, next)
}

// Ready returns the errors of the checks of /readyz, joined; nil if the agent and its pools are ready.
func (a *Agent) Ready() error { return a.failing(func(httpserver.Check) bool { return true }) }

// Serves returns those of the checks that the kubelet probes, joined; nil if the agent is ready.
func (a *Agent) Serves() error { return a.failing(func(c httpserver.Check) bool { return c.Probed }) }

func (a *Agent) failing(counts func(httpserver.Check) bool) (err error) {
	for _, c := range a.checks() {
		if !counts(c) {
			continue
		}
		if not := c.Err(); not != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", c.Name, not))
		}
	}
	return err
}

// publish publishes the capacity once the provisioning loop has started, whose requests go first.
func (a *Agent) publish(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.startup.mayList:
		return a.publisher.Run(ctx)
	}
}

func (a *Agent) checks() (all []httpserver.Check) {
	check := func(is bool, c httpserver.Check) { // c.Err may be the method of a part that is nil
		if is {
			all = append(all, c)
		}
	}
	add := func(is bool, name string, err func() error) { check(is, httpserver.Check{Name: name, Err: err}) }
	probe := func(is bool, name string, err func() error) {
		check(is, httpserver.Check{Name: name, Err: err, Probed: true})
	}
	probe(a.loop != nil, "api", a.serving)
	add(a.onlyNode != nil, "only node", a.onlyNode.Err)
	add(a.original != nil, "local-path provisioner", a.original.Running)
	add(a.migrator != nil, "migration", a.migrator.Stranded)
	add(a.migrator == nil, "migration", func() error { return migrate.Open(a.pools) })
	probe(a.publisher != nil, "capacity", a.publisher.Ready)
	for _, p := range a.pools.All() {
		add(true, "pool "+p.Path(), func() error {
			if err := p.Ready(); p.Elsewhere() == "" {
				return err
			}
			return nil
		})
	}
	probe(a.driver != nil, "driver socket", a.Options.driver.ready)
	probe(a.kubelet != nil, "kubelet", a.kubelet.Ready)
	add(a.seen != nil, "scheduling", a.seen.Ready)
	return all
}

func (a *Agent) collectors() []prometheus.Collector {
	all := []prometheus.Collector{buildInfo(a.version), monitor.NewCollector(a.pools.All(), monitor.SharedWithOS),
		a.probes, a.volumes}
	if a.orphans != nil {
		all = append(all, a.orphans)
	}
	if a.metrics.address != "" {
		all = append(all, a.metrics.certificate())
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
