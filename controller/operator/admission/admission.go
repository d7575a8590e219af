// Package admission decides about changes of HostPathProvisioners that one object cannot show: a
// pool may not be removed or moved while PVs name it, and a pvcTemplate may not become what the
// claims of its pool cannot.
//
//	admission.go    the decision
//	notes.go        settings of a resource that have no effect
//	server.go       serves it to the API server, and bounds what clients can ask
//	certificate.go  makes and renews the certificate of that server
package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
)

// maxPools is how many pools a resource may have, by its definition.
const maxPools = 32

// Validator decides about one change. All that it reads is cached: every client that reaches the
// webhook may ask.
type Validator struct {
	// Cache has the HostPathProvisioners, PVs, nodes, and the claims of pools.
	Cache client.Reader
	// Namespace is that of the operator, and of the claims of pools.
	Namespace string
}

// Handle implements admission.Handler. A deleted resource may change in any way, so that its
// finalizers can be removed.
func (v *Validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	var now, before v1beta1.HostPathProvisioner
	if err := json.Unmarshal(request.Object.Raw, &now); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the resource: %w", err))
	}
	if request.Operation == admissionv1.Create {
		return admission.Allowed("").WithWarnings(append(Notes(&now), v.second(ctx)...)...)
	}
	if err := json.Unmarshal(request.OldObject.Raw, &before); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the resource before: %w", err))
	}
	if now.DeletionTimestamp != nil || reflect.DeepEqual(now.Spec, before.Spec) {
		return admission.Allowed("")
	}
	if n := len(now.Spec.StoragePools); n > maxPools { // the API server admits no such list that changed
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("%d pools, and a resource has at most %d", n, maxPools))
	}
	refused, err := renamed(before.Spec, now.Spec), error(nil)
	if refused == "" {
		refused, err = v.used(ctx, lost(before.Spec, now.Spec))
	}
	switch {
	case err != nil: // the operator keeps a pool while PVs name it, also if this server was not asked
		return admission.Allowed("").WithWarnings(fmt.Sprintf("whether PVs name the pools that go is not known: %v", err))
	case refused != "":
		return admission.Denied(refused)
	}
	switch refused, err = v.templates(ctx, before.Spec, now.Spec); {
	case err != nil: // the operator does not change the claims, and its conditions name what differs
		return admission.Allowed("").WithWarnings(fmt.Sprintf("whether claims can follow pvcTemplate is not known: %v", err))
	case refused != "":
		return admission.Denied(refused)
	}
	return admission.Allowed("").WithWarnings(Notes(&now)...)
}

// templates returns why a template may not change, or "". One that stays is not checked: other
// changes must be possible.
func (v *Validator) templates(ctx context.Context, before,
	now v1beta1.HostPathProvisionerSpec) (refused string, err error) {
	old := map[string]*corev1.PersistentVolumeClaimSpec{}
	for _, p := range before.StoragePools {
		old[p.Name] = p.PVCTemplate
	}
	for _, p := range now.StoragePools {
		if p.PVCTemplate == nil || equality.Semantic.DeepEqual(p.PVCTemplate, old[p.Name]) {
			continue
		}
		if refused, err = v.claims(ctx, p.Name, p.PVCTemplate); refused != "" || err != nil {
			return refused, err
		}
	}
	return "", nil
}

// second is the warning of a resource that is not the first.
func (v *Validator) second(ctx context.Context) []string {
	var all v1beta1.HostPathProvisionerList
	if err := v.Cache.List(ctx, &all); err != nil || len(all.Items) == 0 {
		return nil
	}
	return []string{"only one HostPathProvisioner is served, and " + all.Items[0].Name + " is older"}
}

// hostPath is what stands for hostPath volumes in place of a pool's name.
const hostPath = ""

// place is where the volumes of a pool are. With a claim they are on its filesystem, which hides
// what the directory has without.
type place struct {
	path  string
	claim bool
}

func (p place) String() string {
	if p.claim {
		return p.path + " with pvcTemplate"
	}
	return p.path
}

// places returns the place of each pool, and that of hostPath volumes.
func places(spec v1beta1.HostPathProvisionerSpec) map[string]place {
	if c := spec.PathConfig; c != nil {
		at := place{path: filepath.Clean(c.Path)}
		return map[string]place{hostPath: at, contract.DefaultPool: at}
	}
	all := map[string]place{}
	for _, p := range spec.StoragePools {
		all[p.Name] = place{filepath.Clean(p.Path), p.PVCTemplate != nil}
	}
	return all
}

// lost returns the pools that are removed or moved, each with its place. A resource may go from
// pathConfig to pools: the operator keeps both kinds of volumes meanwhile.
func lost(before, now v1beta1.HostPathProvisionerSpec) map[string]place {
	if before.PathConfig != nil && now.PathConfig == nil {
		return nil
	}
	gone, stay := places(before), places(now)
	maps.DeleteFunc(gone, func(name string, at place) bool { return stay[name] == at })
	return gone
}

// renamed returns why a pool may not have the path of a former one, or of one that moves, or "": the
// disk of that one's claim is mounted there until no agent offers a pool at the path.
func renamed(before, now v1beta1.HostPathProvisionerSpec) string {
	old, stay := places(before), places(now)
	by := map[string]string{} // the pool that has the path now, the first by its name
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(stay))) {
		by[stay[name].path] = name
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		at := old[name]
		other, taken := by[at.path]
		if !at.claim || !taken || stay[name].path == at.path {
			continue
		}
		what := "pool " + other
		if other == hostPath {
			what = "pathConfig"
		}
		return fmt.Sprintf("%s has the path of pool %s, whose claims are mounted at %s on each node; "+
			"give it another path, or remove pool %s first and add the path again when its Deployments are gone", what, name,
			at.path, name)
	}
	return ""
}

// used returns why these pools may not go, or "" if no PV names one.
func (v *Validator) used(ctx context.Context, pools map[string]place) (refused string, err error) {
	if len(pools) == 0 {
		return "", nil
	}
	users := map[string][]string{}
	err = v.eachPV(ctx, func(pv *corev1.PersistentVolume) {
		name := hostPath
		if pv.Spec.CSI != nil {
			name = contract.PoolName(pv.Spec.CSI.VolumeAttributes)
		}
		if _, found := pools[name]; found {
			users[name] = append(users[name], pv.Name)
		}
	})
	var text []string
	for _, name := range slices.Sorted(maps.Keys(users)) {
		what := "pool " + name + " is"
		if name == hostPath {
			what = "hostPath volumes are"
		}
		slices.Sort(users[name])
		text = append(text, fmt.Sprintf("%s in %s, with %s: %s; delete them first, or leave it there",
			what, pools[name], events.Count(len(users[name]), "PV"), events.Names(users[name], events.Listed)))
	}
	return strings.Join(text, ". "), err
}

// claims describes what of the template a claim of the pool cannot have, or returns "".
func (v *Validator) claims(ctx context.Context, pool string,
	template *corev1.PersistentVolumeClaimSpec) (string, error) {
	if refused, err := claimpools.NameTaken(ctx, v.Cache, v.Namespace, pool); refused != "" || err != nil {
		return refused, err
	}
	return claimpools.Conflict(ctx, v.Cache, v.Namespace, pool, template)
}

// eachPV calls see for each PV of the provisioners in the cache. It is for answers that destroy
// nothing: anyone who reaches the webhook may ask, and must not make the API server list all PVs.
func (v *Validator) eachPV(ctx context.Context, see func(*corev1.PersistentVolume)) error {
	var pvs corev1.PersistentVolumeList
	if err := v.Cache.List(ctx, &pvs, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PVs: %w", err)
	}
	for i := range pvs.Items {
		if pv := &pvs.Items[i]; identity.Provisioned(pv) {
			see(pv)
		}
	}
	return nil
}
