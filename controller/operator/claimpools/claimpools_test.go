package claimpools

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

func spec(change func(*corev1.PersistentVolumeClaimSpec)) *corev1.PersistentVolumeClaimSpec {
	s := &corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
	change(s)
	return s
}

func TestTemplates(t *testing.T) {
	claim := spec(func(s *corev1.PersistentVolumeClaimSpec) {
		s.VolumeName, s.VolumeMode = "pv", ptr.To(corev1.PersistentVolumeFilesystem)
	})
	for name, row := range map[string]struct {
		change          func(*corev1.PersistentVolumeClaimSpec)
		refused, differ string
	}{
		"the same":  {func(*corev1.PersistentVolumeClaimSpec) {}, "", ""},
		"default":   {func(s *corev1.PersistentVolumeClaimSpec) { s.StorageClassName = nil }, "", ""},
		"no class":  {func(s *corev1.PersistentVolumeClaimSpec) { s.StorageClassName = ptr.To("") }, "", "storageClassName"},
		"a PV":      {func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeName = "other" }, "", "volumeName"},
		"selector":  {func(s *corev1.PersistentVolumeClaimSpec) { s.Selector = &metav1.LabelSelector{} }, "", "selector"},
		"source":    {func(s *corev1.PersistentVolumeClaimSpec) { s.DataSource = &corev1.TypedLocalObjectReference{} }, "", "dataSource"},
		"pod":       {func(s *corev1.PersistentVolumeClaimSpec) { s.AccessModes[0] = corev1.ReadWriteOncePod }, "", "accessModes"},
		"block":     {func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, "volumeMode Block", "volumeMode"},
		"shared":    {func(s *corev1.PersistentVolumeClaimSpec) { s.AccessModes[0] = corev1.ReadWriteMany }, "nodes cannot share a pool", "accessModes"},
		"read only": {func(s *corev1.PersistentVolumeClaimSpec) { s.AccessModes[0] = corev1.ReadOnlyMany }, "written to", "accessModes"},
	} {
		template := spec(row.change)
		if _, message := objects.Refused(template); (message == "") != (row.refused == "") || !strings.Contains(message, row.refused) {
			t.Errorf("%s: %q, want words %q", name, message, row.refused)
		}
		if got := differs(template, claim); got != row.differ {
			t.Errorf("%s: differs in %q, want %q", name, got, row.differ)
		}
	}
}

// A claim with a block device stays as it is, with its Deployment: no advice leads to a holder that
// cannot mount it.
func TestBlockClaim(t *testing.T) {
	block := spec(func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: objects.NameOf("p", "n1"), Namespace: "ns"}, Spec: *block}
	c := objectsOf(t, claim, nodeNamed("n1", corev1.ConditionTrue))
	c.create(c.k.Holder(c.k.Resource, objects.Pool{Name: "p", Path: "/of/another/operator"}, "n1", poolrecord.Holder{}))
	c.k.Record.Holders = map[string]poolrecord.Holder{objects.NameOf("p", "n1"): {Pool: "p", Node: "n1", Path: "/srv/p/csi"}}
	w := poolP()
	w.Nodes = w.Nodes[:1]
	r := c.pass(w)
	if text := strings.Join(r.States[0].Problems, "\n"); !strings.Contains(text, "claim hpp-pool-p-n1 has volumeMode Block") || strings.Contains(text, "set it back") {
		t.Errorf("problems %q", text)
	}
	if got := objects.PathOf(c.holder(objects.NameOf("p", "n1"))); got != "/of/another/operator" {
		t.Errorf("the Deployment was changed: it mounts at %s", got)
	}
}

func TestState(t *testing.T) {
	claim := func(name string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	}
	ready := &appsv1.Deployment{Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}
	offers, starts := objects.Node{Name: "n", Offered: map[string]string{"other": "", "p": ""}}, objects.Node{Name: "n", Offered: map[string]string{"other": ""}}
	for name, row := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		d     *appsv1.Deployment
		node  objects.Node
		phase v1beta1.StoragePoolPhase
		waits string
	}{
		"ready":      {claim("c", corev1.ClaimBound), ready, offers, v1beta1.Ready, ""},
		"no agent":   {claim("c", corev1.ClaimBound), ready, starts, v1beta1.Mounting, "the agent on node n does not offer the pool yet"},
		"no holder":  {claim("c", corev1.ClaimBound), nil, offers, v1beta1.Mounting, "claim c is not mounted on node n yet"},
		"starting":   {claim("c", corev1.ClaimBound), &appsv1.Deployment{}, offers, v1beta1.Mounting, "claim c is not mounted on node n yet"},
		"changed":    {claim("c", corev1.ClaimBound), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: ready.Status}, offers, v1beta1.Mounting, "claim c is not mounted"},
		"pending":    {claim("c", corev1.ClaimPending), ready, offers, v1beta1.Preparing, "claim c is not bound yet"},
		"none found": {nil, nil, offers, v1beta1.Preparing, ""},
	} {
		s := newState(objects.Pool{Name: "p"}, 2)
		s.addClaim(claim("b", corev1.ClaimBound), "")
		s.addMount(claim("b", corev1.ClaimBound), ready, offers)
		s.addClaim(row.claim, "")
		s.addMount(row.claim, row.d, row.node)
		s.setPhase()
		if s.Phase != row.phase || s.CurrentReady > 2 || (s.Phase == v1beta1.Ready) != (s.CurrentReady == 2) || !strings.Contains(strings.Join(s.Waits, "\n"), row.waits) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	// While the agent of a node is replaced, the pool is not ready.
	s := newState(objects.Pool{Name: "p"}, objects.Desired{Nodes: []objects.Node{offers}, Agents: 2}.Count())
	s.addClaim(claim("b", corev1.ClaimBound), "")
	s.addMount(claim("b", corev1.ClaimBound), ready, offers)
	if s.setPhase(); s.Phase != v1beta1.Preparing || s.CurrentReady != 1 || s.DesiredReady != 2 {
		t.Errorf("with an agent on one of two nodes: %+v", s)
	}
	if s := newState(objects.Pool{Name: "p"}, 0); s.Phase != v1beta1.Preparing {
		t.Errorf("without nodes: %+v", s)
	}
}
