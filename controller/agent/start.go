package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// startup is how far the start of the provisioning loop is.
type startup struct {
	waits   atomic.Pointer[error] // why claims are not served yet
	mayList chan struct{}         // closed when other parts may list and watch
}

func newStartup() *startup {
	s := &startup{mayList: make(chan struct{})}
	s.set(errors.New("starting"))
	return s
}

func (s *startup) set(err error) { s.waits.Store(&err) }

// serving returns nil if claims are served, or why they are not: the API server does not answer, or
// a permission is missing. The state of pools is not part of it.
func (a *Agent) serving() error { return errors.Join(*a.startup.waits.Load(), a.info.Ready()) }

// serveClaims serves the claims of this node until the context ends. It waits for the API server
// and for permissions; serving returns what it waits for.
//
// The order matters: the pools are opened when the PVs of this node are known, because a PV names the
// pool that is expected at a path; PVs are checked when the pools were opened.
func (a *Agent) serveClaims(ctx context.Context) error {
	if !a.eventually(ctx, a.info.Read) || !a.eventually(ctx, a.info.CheckPermissions) {
		return nil
	}
	claims, err := a.claims.Watch(ctx)
	if err != nil {
		return err
	}
	library, err := a.loop.Library(ctx, claims)
	if err != nil {
		return err
	}
	close(a.startup.mayList)
	pvs, classes := a.pvs.Informer(), a.claims.Classes()
	a.group.Run(pvs.RunWithContext)
	a.group.Run(classes.RunWithContext)
	if !cache.WaitForCacheSync(ctx.Done(), pvs.HasSynced, classes.HasSynced) || !a.eventually(ctx, a.pvs.Sweep) ||
		!a.eventually(ctx, a.readNodes) {
		return nil
	}
	for pool, err := range a.pools.Open() {
		klog.FromContext(ctx).Error(err, "The pool is not ready; the agent probes it again", "pool", pool.Name())
	}
	if err := a.admit(); err != nil {
		return err
	}
	if err := a.pvs.Watch(a.claims, claims); ctx.Err() != nil {
		return nil // the informer has ended with the context, and takes no handler
	} else if err != nil {
		return fmt.Errorf("watch PVs: %w", err)
	}
	a.startup.set(nil)
	for _, part := range []func(context.Context){
		a.runMonitors, claims.RunWithContext, a.pvs.Run, a.claims.RunRetries,
		func(ctx context.Context) { a.beside(ctx, claims, pvs) },
		// A permission was granted: PVs of older provisioners can be labelled now.
		func(ctx context.Context) { a.info.Run(ctx, a.pvs.Granted) },
	} {
		a.group.Run(part)
	}
	library.Run(ctx)
	return nil
}

// eventually calls f until it succeeds, with growing pauses, and returns false if the context ends
// first. It logs each error, and serving returns it.
func (a *Agent) eventually(ctx context.Context, f func(context.Context) error) bool {
	pause := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 1 << 30, Cap: 30 * time.Second}
	for {
		err := f(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		a.startup.set(err)
		klog.FromContext(ctx).Error(err, "Cannot start yet; trying again")
		if !sleep.For(ctx, pause.Step()) {
			return false
		}
	}
}

// NewClient returns a client of the API server, which sends no request yet. It uses the service
// account of the pod if kubeconfig is "", and makes at most qps requests a second.
func NewClient(kubeconfig, node string, qps float32) (kubernetes.Interface, error) {
	config, err := live.APIServer(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = qps, int(5*qps)
	config.UserAgent = "hostpath-provisioner/" + node
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
