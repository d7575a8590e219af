package simulation

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/diskpvs"
	"kubevirt.io/hostpath-provisioner/controller/operator/nodegone"
)

// lostNodes is a life of the parts of the operator that give lost volumes and disks up, on a manager of
// their own: enough where the agents are installed by manifests.
type lostNodes struct {
	*process
	lives int
}

func (w *World) startLostNodes() {
	w.op.lives++
	p := &process{who: fmt.Sprintf("operator#%d", w.op.lives), done: make(chan struct{})}
	w.op.process = p
	w.faults.living.Store(p.who, p)
	cfg := w.API.Config(p.who)
	types := runtime.NewScheme()
	must(scheme.AddToScheme(types))
	own := map[string]cache.Config{namespace: {}}
	mgr := must1(manager.New(cfg, manager.Options{Scheme: types, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, GracefulShutdownTimeout: ptr.To(5 * time.Second),
		Cache:          cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: own}, &storagev1.CSIStorageCapacity{}: {Namespaces: own}}},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper(), nil }}))
	live := kubernetes.NewForConfigOrDie(cfg)
	recorder := events.NewOf(live, corev1.EventSource{Component: "hostpath-provisioner-operator"})
	nodes := &nodegone.Reconciler{Namespace: namespace, Cache: mgr.GetClient(), Live: live, Events: recorder,
		Grace: func(context.Context) (time.Duration, error) { return grace, nil }}
	must(nodes.Register(mgr))
	disks := &diskpvs.Reconciler{Namespace: namespace, Cache: mgr.GetClient(), Live: live, Events: recorder, Grace: nodes.Grace}
	must(disks.Register(mgr))
	life, cancel := context.WithCancel(ctx)
	p.cancel = func() {
		select {
		case <-mgr.Elected():
			cancel()
		default: // until its caches are filled, a manager whose context ended loops without a pause
			close(p.done)
		}
	}
	go func() {
		defer func() {
			if life.Err() != nil {
				close(p.done)
			}
		}()
		if err := mgr.Start(life); err != nil && life.Err() == nil {
			w.judge.blame("ENDS", "the operator ended by itself: %v", err)
		}
		recorder.Close()
	}()
}

func (w *World) restartLostNodes() {
	w.kill(w.op.process)
	w.startLostNodes()
}

// mapper knows the kinds that the operator reads, so that a manager is made while the API server
// refuses requests.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[string]meta.RESTScope{"Node": meta.RESTScopeRoot, "PersistentVolume": meta.RESTScopeRoot,
		"PersistentVolumeClaim": meta.RESTScopeNamespace, "Pod": meta.RESTScopeNamespace} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), scope)
		m.Add(corev1.SchemeGroupVersion.WithKind(kind+"List"), scope)
	}
	for kind, scope := range map[string]meta.RESTScope{"StorageClass": meta.RESTScopeRoot, "CSIStorageCapacity": meta.RESTScopeNamespace} {
		m.Add(storagev1.SchemeGroupVersion.WithKind(kind), scope)
		m.Add(storagev1.SchemeGroupVersion.WithKind(kind+"List"), scope)
	}
	return m
}
