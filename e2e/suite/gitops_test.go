package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The operator, its definition and its resource are applied by a GitOps tool. Neither changes what
// the other wrote, and pruning leaves what volumes need.
func TestGitOpsOperator(t *testing.T) {
	t.Parallel()
	for name, tool := range map[string]func(*harness.Scene) *gitops{"flux": newFlux, "argo": newArgo} {
		t.Run(name, func(t *testing.T) {
			o := operate(t)
			g := tool(o.Scene)
			system, resource := g.kustomized("operator"), "manifests/examples/operator-pool.yaml"
			kept := g.keeping(resource)
			g.tool.apply(system)
			g.tool.apply(kept)
			o.healthy()
			before := o.settled()
			for range 3 {
				g.inSync(system)
				g.inSync(kept)
				time.Sleep(2 * time.Second)
			}
			if after := o.writes(); len(after) != len(before) || len(before) == 0 {
				t.Errorf("the operator writes what the tool applies again: %v", after[len(before):])
			}
			g.marksOnly(system, kept)
			g.prunes(o, system, resource, kept)
		})
	}
}

// prunes has the resource and then the operator leave their sources while a PV exists.
func (g *gitops) prunes(o *operated, system, resource, kept string) {
	g.Helper()
	o.pv("of-csi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "of-csi"}})
	all := func() map[string]string {
		left := g.all()
		for id := range left {
			if !slices.ContainsFunc([]string{"Namespace/", "PersistentVolume/", "CustomResourceDefinition/", "DaemonSet/", "ResourceQuota/"},
				func(kind string) bool { return strings.HasPrefix(id, kind) }) {
				delete(left, id)
			}
		}
		return left
	}
	before := all()
	g.tool.prune(kept)
	g.stays("nothing goes", func() error { return sameObjects(all(), before) })
	if cr := o.get("hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners", serving); cr.GetDeletionTimestamp() != nil {
		g.Fatal("the resource with the annotation was pruned")
	}
	g.tool.apply(resource) // without the annotations
	g.tool.prune(resource)
	o.Eventually("the resource waits", func() error {
		cr := o.get("hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners", serving)
		if cr.GetDeletionTimestamp() == nil {
			return fmt.Errorf("it is not deleted")
		}
		return o.says(serving, "VolumesInUse")
	})
	g.tool.prune(system) // the operator is gone before the resource is
	g.stays("the agents, the PV, the namespace, the definition and the quota stay", func() error { return sameObjects(all(), before) })
	o.operator.Kill()
	o.operator = o.Operator() // its source is back
	o.noPV("of-csi")
	o.Eventually("the resource is gone", func() error {
		_, err := resources(o.Scene).Get(o.Context(), serving, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, %w", err)
	})
	g.tool.apply(resource)
	o.healthy()
	g.inSync(resource)
}

// The source changes from manifests/csi to the operator: the tool applies the new objects, and then
// prunes those of the former form, of which the operator has taken some over.
func TestGitOpsSwitch(t *testing.T) {
	t.Parallel()
	o := operate(t)
	g := newFlux(o.Scene)
	former, system, resource := g.kustomized("csi"), g.kustomized("operator"), "manifests/examples/operator-pool.yaml"
	g.tool.apply(former)
	o.pv("of-csi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "of-csi"}})
	g.tool.apply(system)
	g.tool.apply(resource)
	o.healthy()
	left := map[string]bool{}
	for _, file := range []string{system, resource} {
		for _, object := range read(g.Scene, file) {
			left[object.GetKind()+object.GetName()] = true
		}
	}
	var rest []string
	for _, object := range read(g.Scene, former) {
		if !left[object.GetKind()+object.GetName()] {
			rest = append(rest, text(g.Scene, object))
		}
	}
	before, writes := o.get("apps/v1/daemonsets", daemons), len(o.settled())
	g.tool.prune(written(g.Scene, "pruned.yaml", strings.Join(rest, "---\n")))
	o.Within(repaired, "the driver's object is there again", func() error {
		_, err := o.kind("storage.k8s.io/v1/csidrivers").Get(o.Context(), harness.Driver, metav1.GetOptions{})
		if err == nil && len(o.writes()) == writes {
			err = fmt.Errorf("the operator has written nothing since")
		}
		return err
	})
	o.healthy()
	if after := o.get("apps/v1/daemonsets", daemons); after.GetUID() != before.GetUID() || after.GetGeneration() != before.GetGeneration() {
		t.Errorf("the agents were replaced: generation %d of %s, then %d of %s", before.GetGeneration(), before.GetUID(), after.GetGeneration(), after.GetUID())
	}
	g.inSync(system)
	g.inSync(resource)
}

// says returns nil if a condition of the resource has the reason.
func (o *operated) says(name, reason string) error {
	conditions, _, _ := unstructured.NestedSlice(o.get("hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners", name).Object, "status", "conditions")
	if !slices.ContainsFunc(conditions, func(c any) bool { return c.(map[string]any)["reason"] == reason }) {
		return fmt.Errorf("no condition has the reason %s: %v", reason, conditions)
	}
	return nil
}

// Every form, and every form of the chart as it is rendered without its hooks, is in sync once it is
// applied, with each tool.
func TestGitOpsForms(t *testing.T) {
	t.Parallel()
	s := ownPlane(t).Scene(t)
	g := newFlux(s)
	for _, file := range []string{"prometheus-operator", "openshift"} {
		g.must(g.run("kubectl apply --server-side -f e2e/suite/testdata/" + file + ".yaml"))
	}
	g.must(g.run("sed 's/ServiceMonitor/PodMonitor/g; s/servicemonitor/podmonitor/g' e2e/suite/testdata/prometheus-operator.yaml | " +
		"kubectl apply --server-side --force-conflicts -f -"))
	g.must(g.run("kubectl create namespace monitoring"))
	var files []string
	for _, dir := range []string{"legacy", "csi", "csi-sidecars", "local-path", "local-pv", "single-node", "operator", "policy", "plugin",
		"monitoring", "openshift", "openshift-csi", "examples/both-modes"} {
		files = append(files, g.kustomized(dir))
	}
	renders, err := filepath.Glob("../chart/renders/*.yaml")
	if err != nil || len(renders) < 15 {
		t.Fatalf("%d renders, %v", len(renders), err)
	}
	for _, render := range renders {
		files = append(files, g.withoutHooks(strings.TrimPrefix(render, "../"), filepath.Base(render)))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			part := *s
			part.TB = t
			for _, g := range []*gitops{newFlux(&part), newArgo(&part)} {
				g.tool.apply(file)
				g.inSync(file)
				g.tool.prune(file) // the tools do not share objects
			}
		})
	}
}

// withoutHooks writes a render without the objects that Helm creates only for an upgrade or a
// removal, of which every form has some.
func (g *gitops) withoutHooks(render, name string) string {
	g.Helper()
	var rest []string
	hooks := 0
	for _, o := range read(g.Scene, "e2e/"+render) {
		if o.GetAnnotations()["helm.sh/hook"] != "" {
			hooks++
			continue
		}
		rest = append(rest, text(g.Scene, o))
	}
	if hooks != 5 || len(rest) == 0 {
		g.Errorf("%s has %d hooks and %d other objects", render, hooks, len(rest))
	}
	return written(g.Scene, "chart-"+name, strings.Join(rest, "---\n"))
}

// A form leaves its source, with its classes and permissions, while an agent serves: claims, PVs and
// data stay, and the form that comes back goes on with them.
func TestGitOpsPrunedForm(t *testing.T) {
	t.Parallel()
	s := ownPlane(t).Scene(t)
	define(s)
	g := newFlux(s)
	form := g.kustomized("legacy")
	g.tool.apply(form)
	a := s.Agent(s.Node("01"), harness.Options{})
	// The claim is from a source, too: what Kubernetes and the agent set is no drift.
	source := written(s, "claim.yaml", fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  namespace: %s
  annotations:
    %s: %s
spec:
  storageClassName: %s
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 10Mi
`, s.Namespace, harness.AnnProvisionOnNode, a.Node.Hostname, harness.ClassImmediate))
	g.tool.apply(source)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "data"}}
	claim = s.Read(claim)
	pv := s.Bound(claim)
	s.Write(pv.Spec.HostPath.Path, "file", []byte("precious"))
	g.inSync(source)
	g.marksOnly(form, source)
	g.tool.prune(form)
	if classes := g.must(g.run("kubectl get storageclass -o name")); strings.Contains(classes, "/"+harness.ClassImmediate) {
		t.Fatalf("the classes are %s", classes)
	}
	stays := func() error {
		now := s.PV(pv.Name)
		data, err := os.ReadFile(filepath.Join(pv.Spec.HostPath.Path, "file"))
		if err == nil && (now.UID != pv.UID || now.DeletionTimestamp != nil || now.Status.Phase != corev1.VolumeBound || string(data) != "precious") {
			err = fmt.Errorf("PV %s of %s, deleted %v, with %q", now.Status.Phase, now.UID, now.DeletionTimestamp, data)
		}
		return err
	}
	g.stays("the PV and its data", stays)
	g.tool.apply(form)
	s.Bound(s.Create(harness.Claim{Node: a.Node.Hostname}))
	g.stays("the PV and its data", stays)
	g.inSync(source)
	g.tool.prune(source) // a claim of a source goes with its volume
	s.Gone(pv.Name)
}
