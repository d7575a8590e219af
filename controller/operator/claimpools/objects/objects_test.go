package objects

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
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
		claim, older, job := NameOf(row.pool, row.node), OlderJobOf(row.pool, row.node), JobOf(row.pool, row.node)
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
		job := JobOf(place[0], place[1])
		if other, has := of[job]; has {
			t.Errorf("pool %s on node %s has the Job %s of %s", place[0], place[1], job, other)
		}
		of[job] = fmt.Sprint(place)
	}
}

// The Deployment has what the mount needs and no more: the directory above the pool's, and the node
// by its name.
func TestHolder(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{}
	k := Maker{Installation: apply.Installation{Namespace: "ns"}, Image: "image:v1"}
	of := poolrecord.Holder{Pool: "local", Node: "node-01", Path: "/srv/local/csi"}
	d := k.Holder(cr, Pool{Name: "local", Path: "/srv/local/csi"}, "node-01", of)
	job := k.Unmounter(cr, d, of)
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
	if labels := d.Spec.Template.Labels; labels["cluster.x-k8s.io/drain"] != "skip" || labels[HolderLabel] != d.Spec.Selector.MatchLabels[HolderLabel] {
		t.Errorf("the pod of the holder has the labels %v", labels)
	}
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || d.Name != "hpp-pool-local-node-01" || len(d.OwnerReferences) != 0 ||
		!reflect.DeepEqual(d.Spec.Selector.MatchLabels, map[string]string{"hpp-pool": "local-hpp"}) || d.Spec.Template.Spec.HostPID {
		t.Errorf("%+v", d)
	}
	if ttl := job.Spec.TTLSecondsAfterFinished; ttl == nil || *ttl < 60 { // a Job that is over is read before it goes
		t.Errorf("the Job goes after %v seconds", ttl)
	}
	if *job.Spec.ActiveDeadlineSeconds <= int64(UnmountFor.Seconds()) || job.OwnerReferences[0].Name != d.Name || !job.Spec.Template.Spec.HostPID {
		t.Errorf("%+v", job.Spec)
	}
	older := k.Holder(cr, Pool{Name: "local"}, "", of)
	p := &older.Spec.Template.Spec
	p.Containers[0].Command, p.Containers[0].Args = []string{"/usr/bin/mounter", "--mountPath", "/srv/local/csi", "--hostPath", "/host"}, nil
	p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0] = corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-01"}}}}
	for _, d := range []*appsv1.Deployment{d, older} {
		if NodeOf(d) != "node-01" || PathOf(d) != "/srv/local/csi" || PoolOf(d) != "local" {
			t.Errorf("node %s, path %s, pool %s", NodeOf(d), PathOf(d), PoolOf(d))
		}
	}
}

// A holder keeps its node from the cluster-autoscaler unless the resource asks for the contrary.
func TestScaleDown(t *testing.T) {
	for _, asked := range []bool{false, true} {
		d := (Maker{}).Holder(&v1beta1.HostPathProvisioner{}, Pool{Name: "p", Path: "/srv/p/csi", ScaleDown: asked}, "n", poolrecord.Holder{})
		value, found := d.Spec.Template.Annotations[asDaemon]
		if found != asked || asked && value != "true" || d.Spec.Template.Annotations["openshift.io/required-scc"] == "" {
			t.Errorf("asked %t: %v", asked, d.Spec.Template.Annotations)
		}
	}
	if _, found := constrained[asDaemon]; found {
		t.Error("the annotation is one of all pods")
	}
}
