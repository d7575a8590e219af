package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/operator"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// installed is a cluster whose agents the operator installs: two replicas of the operator, and what
// runs the objects that it makes. A world begins without one, with agents that it starts itself; the
// act "install" replaces these.
type installed struct {
	*World
	people  client.Client // of every kind; of the API server's client "god"
	mapper  meta.RESTMapper
	version string        // of the operator, and of the agents that it installs
	forgot  bool          // people deleted the resource
	forced  bool          // by force
	retains bool          // people told agents to make PVs with the policy Retain
	wake    chan struct{} // has a value after a change
	same    sync.Map      // resources, with true if nothing changed since they were read
	collect atomic.Bool   // an object was deleted, or made

	// Used by run alone.
	steps *kubeManager
	had   *objects             // that were read last
	since map[string]time.Time // of what may not last

	mu        sync.Mutex // guards the rest; never held while anything waits
	lives     [2]int
	operators [2]*process
	reviewers map[*process]admission.Handler
	running   map[types.UID]*container // by pod
	hangs     map[string]bool          // nodes on which the agents' pods do not end
	jobless   bool                     // pods of Jobs do nothing
}

// newInstalled replaces the agents and the part of the operator that ran so far.
func newInstalled(w *World) *installed {
	w.API.Serve(apiserver.CustomResource("hostpathprovisioner.kubevirt.io/v1beta1", "hostpathprovisioners", "HostPathProvisioner", apiserver.Status))
	i := &installed{World: w, version: "v2", steps: &kubeManager{World: w, due: map[string]time.Time{}}, since: map[string]time.Time{}, had: &objects{},
		wake: make(chan struct{}, 1), reviewers: map[*process]admission.Handler{}, running: map[types.UID]*container{}, hangs: map[string]bool{}}
	i.mapper = restmapper.NewDiscoveryRESTMapper(must1(restmapper.GetAPIGroupResources(w.god.Discovery())))
	i.people = must1(client.New(w.API.Config("god"), client.Options{Scheme: must1(operator.Scheme()), Mapper: i.mapper}))
	for _, policy := range policies {
		w.makeClass("c-"+policy, contract.CSIProvisioner, map[string]string{contract.StoragePool: "c"}, policy)
	}
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	must(i.people.Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: diskClass}, Provisioner: diskDriver, VolumeBindingMode: &wait}))
	w.inst.Store(i)
	for n := range i.operators {
		i.startOperator(n)
	}
	go i.run()
	return i
}

// startOperator begins the next life of a replica. run restarts one that ends by itself, such as one
// that lost its lease.
func (i *installed) startOperator(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lives[n]++
	p := &process{who: fmt.Sprintf("operator/%d#%d", n+1, i.lives[n]), done: make(chan struct{})}
	life, cancel := context.WithCancel(ctx)
	i.operators[n], p.cancel = p, cancel
	i.faults.living.Store(p.who, p)
	s := operator.Settings{Namespace: namespace, Image: "hostpath-provisioner:" + i.version, Version: i.version, PartOf: "hostpath-provisioner"}
	outside := operator.Outside{
		Mapper: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return i.mapper, nil },
		Admission: func(h admission.Handler) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.reviewers[p] = h
		}}
	go func() {
		defer sleep.Wake(i.wake)
		defer close(p.done)
		_ = s.RunIn(life, i.API.Config(p.who), outside)
	}()
}

// stopOperator ends a replica: it gives its lease back, or is killed.
func (i *installed) stopOperator(n int, kill bool) {
	i.mu.Lock()
	p := i.operators[n]
	delete(i.reviewers, p)
	i.mu.Unlock()
	if !kill {
		p.cancel()
		<-p.done
	}
	i.kill(p)
}

// operate replaces both replicas by ones of that version, one after the other.
func (i *installed) operate(version string) {
	i.version = version
	for n := range i.operators {
		i.stopOperator(n, false)
		i.startOperator(n)
	}
}

// review asks a replica's webhook about a change of the resource, as the API server does. A change is
// admitted if none answers in time.
func (i *installed) review(x *apiserver.Write) error {
	if x.Resource != "hostpathprovisioners" || x.New == nil || x.Subresource != "" || len(i.API.Objects("validatingwebhookconfigurations")) == 0 {
		return nil
	}
	i.mu.Lock()
	var webhook admission.Handler
	for p, h := range i.reviewers {
		if !p.killed.Load() && (webhook == nil || p == i.operators[0]) {
			webhook = h
		}
	}
	i.mu.Unlock()
	if webhook == nil {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	raw := func(o object) (r runtime.RawExtension) { r.Raw, _ = json.Marshal(o); return r }
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update, Object: raw(x.New), OldObject: raw(x.Old)}}
	if x.Old == nil {
		r.Operation = admissionv1.Create
	}
	if answer := webhook.Handle(asked, r); !answer.Allowed && asked.Err() == nil {
		return &apierrors.StatusError{ErrStatus: *answer.Result}
	}
	return nil
}

// seen is called after each write.
func (i *installed) seen(x apiserver.Write) {
	switch x.Resource {
	case "events", "leases", "csistoragecapacities":
		return
	}
	i.same.Store(x.Resource, false)
	if x.Resource == "pods" && x.New == nil {
		i.judge.poke() // nothing protects its claims any more
	}
	if x.New == nil || x.Old == nil || field(x.New, "metadata", "deletionTimestamp") != "" {
		i.collect.Store(true)
	}
	sleep.Wake(i.wake)
}

// end ends what is wrong with the installation.
func (i *installed) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hangs, i.jobless = map[string]bool{}, false
	sleep.Wake(i.wake)
}
