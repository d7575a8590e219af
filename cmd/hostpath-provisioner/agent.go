package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller/metrics"

	"kubevirt.io/hostpath-provisioner/controller/health"
	"kubevirt.io/hostpath-provisioner/controller/provision"
	"kubevirt.io/hostpath-provisioner/volume"
)

// runAgent builds the parts, joins them, and runs them until the context ends.
func runAgent(ctx context.Context, o *options) error {
	client, err := newClient(o)
	if err != nil {
		return err
	}
	log := klog.Background().WithValues("node", o.nodeName)
	ctx = klog.NewContext(ctx, log)
	log.Info("Starting", "version", version, "pvDir", o.pvDir, "http", o.address)

	var loop *provision.Controller
	var keeper *health.Keeper
	var pool *volume.Pool
	pool, err = volume.New(volume.Config{
		Name: poolName, Path: o.pvDir, Mode: o.mode, Label: o.selinuxLabel,
		Reserve: o.reserveBytes, Overcommit: o.overcommit, PurgeRate: o.purgeRate,
		Holder:   provision.Holder(o.nodeName, hostname()),
		Expected: func() volume.Expected { return loop.Expected(pool) },
		Step:     step,
	})
	if err != nil {
		return err
	}
	defer pool.Close()

	pools, err := volume.NewPools(pool)
	if err != nil {
		return err
	}
	libraryMetrics := metrics.New("controller")
	loop, err = provision.New(provision.Config{
		Client: client, Node: o.nodeName, Pools: pools, HostPath: pool, Prefix: o.prefix, ReclaimPolicy: o.policy,
		Workers: o.workers, Metrics: libraryMetrics,
		Opened:  func(ctx context.Context) { keeper.Run(ctx) },
		Changed: func(*volume.Pool) { keeper.Purge() },
	})
	if err != nil {
		return err
	}
	events, stop := newRecorder(client, o.nodeName)
	defer stop()
	keeper = health.NewKeeper(pool, events, nodeReference(o.nodeName), loop.PoolChanged)

	exports := append(libraryCollectors(libraryMetrics), health.NewCollector([]*volume.Pool{pool}, health.SharedWithOS))
	parts, err := o.listen(newRegistry(exports...), []health.Check{
		{Name: "api", Err: loop.Ready},
		{Name: "pool " + pool.Path(), Err: pool.Ready},
	})
	if err != nil {
		return err
	}
	return runTogether(ctx, append(parts, loop.Run)...)
}

// poolName is the pool that PV_DIR is, where no other is configured.
const poolName = "legacy"

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

func newClient(o *options) (kubernetes.Interface, error) {
	where := rest.InClusterConfig
	if o.kubeconfig != "" {
		where = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", o.kubeconfig) }
	}
	config, err := where()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; in a pod mount the service account, elsewhere set --kubeconfig", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = "hostpath-provisioner/" + o.nodeName
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

func newRecorder(client kubernetes.Interface, node string) (record.EventRecorder, func()) {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "hostpath-provisioner", Host: node}), b.Shutdown
}

// nodeReference is what events about a node refer to; like the kubelet's, by
// its name instead of its UID.
func nodeReference(node string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
}

func libraryCollectors(m metrics.Metrics) []prometheus.Collector {
	return []prometheus.Collector{
		m.PersistentVolumeClaimProvisionTotal, m.PersistentVolumeClaimProvisionFailedTotal,
		m.PersistentVolumeClaimProvisionDurationSeconds, m.PersistentVolumeDeleteTotal,
		m.PersistentVolumeDeleteFailedTotal, m.PersistentVolumeDeleteDurationSeconds,
	}
}
