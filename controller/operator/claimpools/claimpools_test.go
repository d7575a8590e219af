package claimpools

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// Claims of the existing operator are found by these names.
func TestNames(t *testing.T) {
	long := strings.Repeat("n", 60)
	for _, row := range []struct{ pool, node, claim, older string }{
		{"local", "node-01", "hpp-pool-local-node-01", "cleanup-pool-local-node-01"},
		{"local", "node-01.example.com", "hpp-pool-local-node-01.example.com", "cleanup-pool-local-node-01-example-com"},
		{"p", long[:52], "hpp-pool-p-" + long[:52], "cleanup-pool-47546598"},
		{"p", long[:53], "hpp-pool-2405476e", "cleanup-pool-3fdc8242"},
	} {
		claim, older, job := NameOf(row.pool, row.node), olderJobOf(row.pool, row.node), jobOf(row.pool, row.node)
		if claim != row.claim || older != row.older || len(validation.IsDNS1123Subdomain(claim)) > 0 || len(validation.IsDNS1123Label(job)) > 0 {
			t.Errorf("%s, %s: claim %s, Job %s, formerly %s, want %s and formerly %s", row.pool, row.node, claim, job, older, row.claim, row.older)
		}
	}
}

// No two pools and nodes have one Job.
func TestJobNamesDiffer(t *testing.T) {
	of := map[string]string{}
	long := strings.Repeat("n", 60)
	for _, place := range [][2]string{{"local", "n.1"}, {"local", "n-1"}, {"local-n", "1"}, {"local", long + "1"}, {"local", long + "2"}} {
		job := jobOf(place[0], place[1])
		if other, has := of[job]; has {
			t.Errorf("pool %s on node %s has the Job %s of %s", place[0], place[1], job, other)
		}
		of[job] = fmt.Sprint(place)
	}
}

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
		if _, message := Refused(template); (message == "") != (row.refused == "") || !strings.Contains(message, row.refused) {
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
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: NameOf("p", "n1"), Namespace: "ns"}, Spec: *block}
	c := objectsOf(t, claim, nodeNamed("n1", corev1.ConditionTrue))
	c.create(c.k.holder(&v1beta1.HostPathProvisioner{}, Pool{Name: "p", Path: "/of/another/operator"}, "n1"))
	c.k.Recorded = map[string]poolrecord.Holder{NameOf("p", "n1"): {Pool: "p", Node: "n1", Path: "/srv/p/csi"}}
	w := poolP()
	w.Nodes = w.Nodes[:1]
	r := c.pass(w)
	if text := strings.Join(r.States[0].Problems, "\n"); !strings.Contains(text, "claim hpp-pool-p-n1 has volumeMode Block") || strings.Contains(text, "set it back") {
		t.Errorf("problems %q", text)
	}
	if got := pathOf(c.holder(NameOf("p", "n1"))); got != "/of/another/operator" {
		t.Errorf("the Deployment was changed: it mounts at %s", got)
	}
}

// The Deployment has what the mount needs and no more: the directory above the pool's, and the node
// by its name.
func TestHolder(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{}
	k := &Reconciler{Namespace: "ns", Image: "image:v1"}
	d := k.holder(cr, Pool{Name: "local", Path: "/srv/local/csi"}, "node-01")
	job := k.unmounter(cr, d, "node-01")
	for name, p := range map[string]corev1.PodSpec{"holder": d.Spec.Template.Spec, "unmounter": job.Spec.Template.Spec} {
		c := p.Containers[0]
		for _, v := range p.Volumes {
			if v.HostPath != nil && v.HostPath.Path != "/srv/local" {
				t.Errorf("%s has %s of the host", name, v.HostPath.Path)
			}
		}
		if m := c.VolumeMounts[0]; m.MountPath != "/srv/local" || *m.MountPropagation != corev1.MountPropagationBidirectional {
			t.Errorf("%s: mount %+v", name, m)
		}
		for _, taint := range []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, {Key: "mine", Effect: corev1.TaintEffectNoExecute}} {
			if !slices.ContainsFunc(p.Tolerations, func(t corev1.Toleration) bool {
				return t.ToleratesTaint(klog.Background(), &taint, false) && t.TolerationSeconds == nil
			}) {
				t.Errorf("%s does not run on a node with the taint %s: %v", name, taint.Key, p.Tolerations)
			}
		}
		if c.ImagePullPolicy != corev1.PullIfNotPresent || c.Image != "image:v1" || *p.AutomountServiceAccountToken {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if labels := d.Spec.Template.Labels; labels["cluster.x-k8s.io/drain"] != "skip" || labels[holderLabel] != d.Spec.Selector.MatchLabels[holderLabel] {
		t.Errorf("the pod of the holder has the labels %v", labels)
	}
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || d.Name != "hpp-pool-local-node-01" || len(d.OwnerReferences) != 0 ||
		!reflect.DeepEqual(d.Spec.Selector.MatchLabels, map[string]string{"hpp-pool": "local-hpp"}) || d.Spec.Template.Spec.HostPID {
		t.Errorf("%+v", d)
	}
	if ttl := job.Spec.TTLSecondsAfterFinished; ttl == nil || *ttl < 60 { // a Job that is over is read before it goes
		t.Errorf("the Job goes after %v seconds", ttl)
	}
	if *job.Spec.ActiveDeadlineSeconds <= int64(unmountFor.Seconds()) || job.OwnerReferences[0].Name != d.Name || !job.Spec.Template.Spec.HostPID {
		t.Errorf("%+v", job.Spec)
	}
	older := k.holder(cr, Pool{Name: "local"}, "")
	p := &older.Spec.Template.Spec
	p.Containers[0].Command, p.Containers[0].Args = []string{"/usr/bin/mounter", "--mountPath", "/srv/local/csi", "--hostPath", "/host"}, nil
	p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0] = corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-01"}}}}
	for _, d := range []*appsv1.Deployment{d, older} {
		if nodeOf(d) != "node-01" || pathOf(d) != "/srv/local/csi" || poolOf(d) != "local" {
			t.Errorf("node %s, path %s, pool %s", nodeOf(d), pathOf(d), poolOf(d))
		}
	}
}

func TestState(t *testing.T) {
	claim := func(name string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	}
	ready := &appsv1.Deployment{Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}
	offers, starts := Node{Name: "n", Offered: []string{"other", "p"}}, Node{Name: "n", Offered: []string{"other"}}
	for name, row := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		d     *appsv1.Deployment
		node  Node
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
		s := newState(Pool{Name: "p"}, 2)
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
	s := newState(Pool{Name: "p"}, Desired{Nodes: []Node{offers}, Agents: 2}.count())
	s.addClaim(claim("b", corev1.ClaimBound), "")
	s.addMount(claim("b", corev1.ClaimBound), ready, offers)
	if s.setPhase(); s.Phase != v1beta1.Preparing || s.CurrentReady != 1 || s.DesiredReady != 2 {
		t.Errorf("with an agent on one of two nodes: %+v", s)
	}
	if s := newState(Pool{Name: "p"}, 0); s.Phase != v1beta1.Preparing {
		t.Errorf("without nodes: %+v", s)
	}
}

// A Job whose pod does not start shows why.
func TestUnmounterThatDoesNotStart(t *testing.T) {
	for want, status := range map[string]corev1.PodStatus{
		"the pod p that unmounts it does not start: ImagePullBackOff: no such image": {ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}},
		"the pod p that unmounts it has no node: 0/1 nodes": {Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes"}}},
		"": {},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: "j"}}, Status: status}
		k := &Reconciler{Namespace: "ns", Live: fake.NewClientBuilder().WithObjects(pod).Build()}
		if got, err := k.notStarting(t.Context(), job); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
