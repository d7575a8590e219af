package suite

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	annNodeGone = "hostpath-provisioner.kubevirt.io/node-gone"
	// goneGrace is the setting nodeGoneGrace of the tests.
	goneGrace = 2 * time.Second
)

// goneScene is a control plane with the operator, and volumes of every policy and both backends on
// one node.
type goneScene struct {
	*harness.Scene
	operator *harness.Operator
	audit    string
	node     harness.Node
	agent    *harness.Agent
	waits    *corev1.PersistentVolumeClaim // for a node that is created later
	csiPool  string
	markers  *int                                       // of afterGrace
	pvs      map[string]*corev1.PersistentVolume        // by claim, as they were made
	volumes  map[string][]*corev1.PersistentVolumeClaim // by policy, "" for a class without the annotation
}

// TestNodeGone has a node deleted under volumes of all policies. Each step leaves the cluster for
// the next one.
func TestNodeGone(t *testing.T) {
	t.Parallel()
	e, audit := audited(t)
	g := &goneScene{Scene: e.Scene(t), audit: audit, markers: new(int), volumes: map[string][]*corev1.PersistentVolumeClaim{}, pvs: map[string]*corev1.PersistentVolume{}}
	g.operator = g.Operator()
	g.settings(goneGrace.String())
	g.fill()
	for _, step := range []struct {
		name string
		run  func(*goneScene)
	}{
		{"hostname changed", (*goneScene).renamed},
		{"node not ready", (*goneScene).notReady},
		{"node deleted", (*goneScene).deleted},
		{"node back", (*goneScene).back},
		{"node replaced under a claim", (*goneScene).replaced},
		{"node registered again", (*goneScene).registeredAgain},
		{"node rebuilt with an empty disk", (*goneScene).rebuilt},
		{"disk replaced", (*goneScene).diskReplaced},
		{"operator killed", (*goneScene).killed},
		{"permissions", (*goneScene).permissions},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			scene, part := *g.Scene, *g
			scene.TB = t
			part.Scene = &scene
			step.run(&part)
			g.node = part.node
		})
		if !ok {
			t.FailNow()
		}
	}
}

// settings writes the operator's settings.
func (g *goneScene) settings(grace string) {
	g.Helper()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: "hostpath-provisioner-settings"},
		Data: map[string]string{"nodeGoneGrace": grace}}
	if _, err := g.Client.CoreV1().ConfigMaps(harness.Namespace).Create(g.Context(), settings, metav1.CreateOptions{}); err != nil {
		g.Fatal(err)
	}
}

// fill creates the volumes.
func (g *goneScene) fill() {
	g.node = g.Node("01")
	g.csiPool = g.node.Pool + "-csi"
	g.agent = g.Agent(g.node, harness.Options{CSI: "hostpath,csi", DataDir: harness.Datadir(harness.LocalPool, g.csiPool)})
	for _, policy := range []string{"", "release", "delete"} {
		edit := func(c *storagev1.StorageClass) {
			delayed := storagev1.VolumeBindingWaitForFirstConsumer
			if c.VolumeBindingMode = &delayed; policy != "" {
				c.Annotations = map[string]string{annNodeGone: policy}
			}
		}
		for _, class := range []string{g.Class("path"+policy, edit), g.CSIClass("csi"+policy, edit)} {
			claim := g.Create(harness.Claim{Class: class, Selected: g.node.Name})
			g.Bound(claim)
			g.Write(g.directory(claim), "data", []byte("precious"))
			g.volumes[policy] = append(g.volumes[policy], claim)
			g.pvs[claim.Name] = g.PV(harness.PVName(claim))
		}
	}
	g.Eventually("bound on the disk", func() error { // the agent defers that
		for _, pool := range []string{g.node.Pool, g.csiPool} {
			for _, v := range g.Inspect(pool).Volumes {
				if v.State != "bound" {
					return fmt.Errorf("%s is %s", v.Name, v.State)
				}
			}
		}
		return nil
	})
	g.waits = g.Create(harness.Claim{Class: g.ClassName("csi"), Selected: g.Name + "-node-02"})
	time.Sleep(time.Second) // creation times have no fractions
	g.Node("02")
	g.Eventually("capacity", func() error { _, err := g.Capacity(g.ClassName("csi"), g.node); return err })
}

// directory returns the directory of a claim's volume.
func (g *goneScene) directory(claim *corev1.PersistentVolumeClaim) string {
	if strings.Contains(*claim.Spec.StorageClassName, "-csi") {
		return filepath.Join(g.csiPool, harness.PVName(claim))
	}
	return filepath.Join(g.node.Pool, harness.PVName(claim))
}

// renamed has the hostname label of a living node changed for longer than the grace period. Nothing
// is given up.
func (g *goneScene) renamed() {
	before := len(operatorWrites(g.Scene, g.audit))
	label := "kubectl label --overwrite node " + g.node.Name + " kubernetes.io/hostname="
	g.Shell(label + "renamed")
	g.afterGrace()
	g.Once("untouched", func() error { return g.counts(0, 0, 0) })
	g.wroteNothingSince(before)
	g.Shell(label + g.node.Hostname)
}

// wroteNothingSince fails if the operator wrote anything but events after so many writes, and what
// afterGrace waits for. The claim that waits for a node is another matter; see replaced.
func (g *goneScene) wroteNothingSince(before int) {
	g.Helper()
	for _, write := range operatorWrites(g.Scene, g.audit)[before:] {
		if !strings.Contains(write, "/events") && !strings.Contains(write, "/"+goneMarker) && !strings.HasSuffix(write, "/persistentvolumeclaims/"+g.waits.Name) {
			g.Errorf("the operator wrote %s", write)
		}
	}
}

// goneMarker is the prefix of the names of afterGrace.
const goneMarker = "marker-"

// afterGrace waits until the operator has handled what happened to Nodes before the call, and the
// grace period that it began then is over: a Node is deleted now, and the operator removes its
// capacity object. One worker handles nodes in the order of their changes, and again when the
// grace period of each is over.
func (g *goneScene) afterGrace() {
	g.Helper()
	*g.markers++
	name := fmt.Sprintf("%s%d", goneMarker, *g.markers)
	must := func(err error) {
		if err != nil {
			g.Fatal(err)
		}
	}
	_, err := g.Plane.CreateNode(g.Context(), name, "", nil)
	must(err)
	objects := g.Client.StorageV1().CSIStorageCapacities(harness.Namespace)
	_, err = objects.Create(g.Context(), &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StorageClassName: g.ClassName("csi"),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{harness.TopologyNode: name}},
	}, metav1.CreateOptions{})
	must(err)
	must(g.Client.CoreV1().Nodes().Delete(g.Context(), name, metav1.DeleteOptions{}))
	g.Eventually("capacity object of a deleted node removed", func() error {
		_, err := objects.Get(g.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// notReady has the agent and its node fail. Nothing happens, however long it takes.
func (g *goneScene) notReady() {
	g.agent.Stop()
	g.Shell(`kubectl taint node ` + g.node.Name + ` node.kubernetes.io/unreachable:NoExecute`)
	g.afterGrace()
	g.Once("untouched", func() error { return g.counts(0, 0, 0) })
	for _, claims := range g.volumes {
		for _, claim := range claims {
			if c := g.Read(claim); c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil {
				g.Errorf("claim %s: %+v", claim.Name, c.Status)
			}
		}
	}
}

// deleted has the node deleted: each volume is treated by its policy.
func (g *goneScene) deleted() {
	begin := time.Now()
	g.remove()
	for _, claim := range g.volumes["release"] {
		g.ClaimGone(claim)
		g.Gone(harness.PVName(claim))
	}
	g.Logf("claims and PVs of the policy release were gone after %s, of which %s were the grace period", time.Since(begin).Round(time.Millisecond), goneGrace)
	for _, claim := range g.volumes["delete"] {
		g.ClaimGone(claim)
		g.Released(harness.PVName(claim))
	}
	for _, claim := range g.volumes[""] {
		pv := g.Bound(claim)
		words := fmt.Sprintf("node %s does not exist any more.*grep -qx %[4]s && kubectl -n %[2]s delete pvc %[3]s; kubectl delete pv %[4]s",
			g.node.Name, g.Namespace, claim.Name, pv.Name)
		awaitEvent(g.Scene, claim.UID, "VolumeNodeGone", words)
		awaitEvent(g.Scene, pv.UID, "VolumeNodeGone", words)
	}
	g.Eventually("metrics", func() error { return g.counts(2, 0, 2) })
	g.Eventually("capacity objects gone", func() error {
		if all := g.Capacities(g.ClassName("csi"), g.node); len(all) > 0 {
			return fmt.Errorf("%d objects", len(all))
		}
		return nil
	})
}

// remove deletes the node.
func (g *goneScene) remove() {
	g.Helper()
	if err := g.Client.CoreV1().Nodes().Delete(g.Context(), g.node.Name, metav1.DeleteOptions{}); err != nil {
		g.Fatal(err)
	}
}

// back has a node of the same name with the same disk: the agent has the volumes that were kept,
// deletes what it may, and reports the others.
func (g *goneScene) back() {
	pool := g.node.Pool
	g.node = g.NodeNamed(g.node.Name, g.node.Hostname)
	g.node.Pool = pool
	before := len(operatorWrites(g.Scene, g.audit))
	for _, claim := range g.volumes[""] { // when its grace period is over, which begins again
		awaitEvent(g.Scene, claim.UID, "VolumeNodeGone", "was made again.*its agent does not have this volume yet")
	}
	g.afterGrace()
	g.Once("a node whose agent does not answer", func() error { return g.counts(2, 0, 2) })
	g.wroteNothingSince(before)
	g.agent.Restart()
	g.agent.AwaitReady()
	g.Eventually("metrics", func() error { return g.counts(0, 0, 0) })
	node, err := g.Client.CoreV1().Nodes().Get(g.Context(), g.node.Name, metav1.GetOptions{})
	if err != nil {
		g.Fatal(err)
	}
	for _, claim := range g.volumes[""] {
		if uid := g.Bound(claim).Annotations[harness.AnnNodeUID]; uid != string(node.UID) {
			g.Errorf("the PV of claim %s has the node's UID %q, want %q", claim.Name, uid, node.UID)
		}
	}
	for _, claim := range g.volumes["delete"] {
		g.Gone(harness.PVName(claim))
		g.Eventually("directory gone", func() error { return harness.Missing(g.directory(claim)) })
	}
	g.Eventually("orphans", func() error {
		return errors.Join(g.agent.MetricIs(1, "kubevirt_hpp_orphans", `kind="record"`, `pool="hostpath"`), g.agent.MetricIs(1, "kubevirt_hpp_orphans", `kind="record"`, `pool="local"`))
	})
	for _, policy := range []string{"", "release"} {
		for _, claim := range g.volumes[policy] {
			if data, err := os.ReadFile(filepath.Join(g.directory(claim), "data")); string(data) != "precious" {
				g.Errorf("data of %s: %q, %v", claim.Name, data, err)
			}
		}
	}
	for _, claim := range g.volumes["release"] {
		g.again(claim)
	}
	for _, claim := range g.volumes[""] {
		g.Bound(claim)
		g.Delete(claim)
		g.Gone(harness.PVName(claim)) // its agent has it
	}
	g.agent.Stop()
}

// replaced has a claim whose node is younger than the scheduler's choice: the scheduler chooses
// again. A younger choice stays.
func (g *goneScene) replaced() {
	g.Eventually("given back", func() error {
		if on := g.Read(g.waits).Annotations[harness.AnnSelectedNode]; on != "" {
			return g.NotYet(g.waits.UID, "it is for %s", on)
		}
		return nil
	})
	awaitEvent(g.Scene, g.waits.UID, "NodeGone", "another node has its name")
	g.Shell(fmt.Sprintf("kubectl -n %s annotate pvc %s %s=%s-node-02", g.Namespace, g.waits.Name, harness.AnnSelectedNode, g.Name))
	g.Eventually("no agent", func() error { return g.Warned(g.waits.UID, harness.ReasonFailed, "no agent runs on node") })
	if g.Read(g.waits).Annotations[harness.AnnSelectedNode] == "" {
		g.Error("a choice of the node that exists was given back")
	}
	g.Delete(g.waits)
}

// again gives the data of a released volume to a new claim, as the page describes it.
func (g *goneScene) again(was *corev1.PersistentVolumeClaim) {
	g.Helper()
	pv, name := g.pvs[was.Name], "again-"+was.Name
	pv.UID, pv.ResourceVersion, pv.Finalizers, pv.Status = "", "", nil, corev1.PersistentVolumeStatus{}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: g.Namespace, Name: name}
	delete(pv.Annotations, harness.AnnNodeUID)
	if _, err := g.Client.CoreV1().PersistentVolumes().Create(g.Context(), pv, metav1.CreateOptions{}); err != nil {
		g.Fatal(err)
	}
	claim := g.Create(harness.Claim{Name: name, Class: *was.Spec.StorageClassName,
		Edit: func(c *corev1.PersistentVolumeClaim) { c.GenerateName, c.Spec.VolumeName = "", pv.Name }})
	g.Eventually("bound", func() error { return g.IsBound(claim) })
	g.Eventually("the new claim's", func() error {
		for _, v := range g.Inspect(filepath.Dir(g.directory(was))).Volumes {
			if v.Name == pv.Name && v.Owner.UID == string(claim.UID) && v.Orphan.Why == "" {
				return nil
			}
		}
		return fmt.Errorf("volume %s is not of claim %s", pv.Name, name)
	})
	if data, err := os.ReadFile(filepath.Join(g.directory(was), "data")); string(data) != "precious" {
		g.Errorf("data of %s: %q, %v", pv.Name, data, err)
	}
	g.Delete(claim)
	g.Gone(pv.Name)
}

// counts returns nil if the operator counts so many PVs of nodes that are gone.
func (g *goneScene) counts(kept, removing, released int) error {
	status, body, err := scrape(g.operator.MetricsAddress(), "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	for state, n := range map[string]int{"kept": kept, "removing": removing, "released": released} {
		if line := fmt.Sprintf("kubevirt_hpp_gone_node_pvs{state=%q} %d\n", state, n); err == nil && !strings.Contains(body, line) {
			err = fmt.Errorf("no %q", line)
		}
	}
	return err
}

// permissions compares what the operator asked for with what it may.
func (g *goneScene) permissions() {
	operatorRole.note(g.Scene, g.audit)
}
