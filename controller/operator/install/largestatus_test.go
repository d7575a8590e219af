package install

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	kubeevents "kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// Of 32 pools on 1,000 nodes, on each of which something is wrong, the status and the events fit, and say
// how many they leave out. The record does, too: see poolrecord.
func TestLargeStatus(t *testing.T) {
	const pools, nodes = 32, 1000
	w := contend(t)
	w.pass()
	l, a := plan{}, agents{State: agentstatus.State{Desired: nodes, Ready: nodes}}
	for p := range pools {
		name := fmt.Sprintf("array-of-fast-disks-%02d", p)
		l.Pools = append(l.Pools, poolrecord.Pool{Name: name, Path: "/" + name, Mount: "/" + name})
		s := claimpools.State{StoragePoolStatus: v1beta1.StoragePoolStatus{Name: name, Phase: v1beta1.Preparing, DesiredReady: nodes}}
		for n := range nodes {
			claim := fmt.Sprintf("hpp-pool-%s-ip-10-0-%03d-%03d", name, n/250, n%250)
			s.ClaimStatuses = append(s.ClaimStatuses, v1beta1.ClaimStatus{Name: claim, Status: corev1.PersistentVolumeClaimStatus{
				Phase:       map[bool]corev1.PersistentVolumeClaimPhase{true: corev1.ClaimPending, false: corev1.ClaimBound}[n >= nodes-3],
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:    corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("1Ti")}}})
			s.Problems = append(s.Problems, "claim "+claim+" is not bound: ProvisioningFailed: the array has no space")
			s.Waits = append(s.Waits, "claim "+claim+" is not mounted on its node yet")
		}
		l.claims.States = append(l.claims.States, s)
	}
	for n := range nodes {
		a.Agents = append(a.Agents, agentstatus.Agent{Node: fmt.Sprintf("ip-10-0-%03d-%03d", n/250, n%250), Ready: true,
			Pools: contract.NodePools{Pools: []contract.NodePool{{Name: "plain", Why: "its disk is probably not mounted"}}}})
	}
	for name, row := range map[string]plan{
		"problems": l, "waits": func() plan {
			waits := l
			waits.claims.States = nil
			for _, s := range l.claims.States {
				s.Problems = nil
				waits.claims.States = append(waits.claims.States, s)
			}
			return waits
		}(),
		"closed": {Layout: layout.Layout{Offer: poolrecord.Offer{Pools: []poolrecord.Pool{{Name: "plain", Path: "/plain"}}}}},
	} {
		cr := &v1beta1.HostPathProvisioner{}
		if err := w.c.Get(t.Context(), client.ObjectKey{Name: "hpp"}, cr); err != nil {
			t.Fatal(err)
		}
		w.warned("")
		if err := w.r.writeStatus(t.Context(), cr, w.r.judge(cr, row, a)); err != nil {
			t.Fatal(err)
		}
		if err := w.c.Get(t.Context(), client.ObjectKey{Name: "hpp"}, cr); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(cr)
		if err != nil || len(text) > 512<<10 {
			t.Errorf("%s: the resource has %d bytes, %v", name, len(text), err)
		}
		if m := progress(cr.Status).Message; !strings.Contains(m, " more") || len(m) > maxMessage {
			t.Errorf("%s: %d bytes: %.200s", name, len(m), m)
		}
		for _, s := range cr.Status.StoragePoolStatuses {
			pending := 0
			for _, c := range s.ClaimStatuses {
				if c.Status.Phase == corev1.ClaimPending {
					pending++
				}
			}
			if len(s.ClaimStatuses) > 0 && pending != 3 {
				t.Errorf("%s: %d of the claims that are not bound", name, pending)
			}
		}
		for len(w.recorded.Events) > 0 {
			if e := <-w.recorded.Events; len(e) > kubeevents.MaxNote+100 {
				t.Errorf("%s: an event of %d bytes", name, len(e))
			}
		}
	}
}
