package suite

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// single is the class of manifests/single-node, and the name of its provisioner.
const single = "hostpath"

// machine is a cluster with one node, and the agent of manifests/single-node on it.
type machine struct {
	*harness.Scene
	a *harness.Agent
}

// newMachine returns a machine whose agent has not been started yet. It deletes the nodes of the
// test before.
func newMachine(t *testing.T, own *harness.Env, o harness.Options) *machine {
	t.Helper()
	s := own.Scene(t)
	m := &machine{Scene: s}
	nodes, err := s.Client.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, n := range nodes.Items {
		m.remove(n.Name)
	}
	o.Env = append(o.Env, "COMPAT=hostpath")
	m.a = s.Later(s.Node("01"), o)
	return m
}

func (m *machine) remove(node string) {
	m.Helper()
	if err := m.Client.CoreV1().Nodes().Delete(m.Context(), node, metav1.DeleteOptions{}); err != nil {
		m.Fatal(err)
	}
}

// directory is the path of the claim's volume.
func (m *machine) directory(claim *corev1.PersistentVolumeClaim) string {
	return filepath.Join(m.a.Pool, claim.Namespace+"-"+claim.Name+"-"+harness.PVName(claim))
}

// claim creates a claim of the class hostpath in a mode.
func (m *machine) claim(mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	m.Helper()
	return m.Create(harness.Claim{Class: single, Mode: mode, Size: "1Mi"})
}

// older creates a directory with data and its PV as the older provisioner made them, after edit.
// The PV is that of a bound claim.
func (m *machine) older(edit func(*corev1.PersistentVolume)) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	m.Helper()
	claim := m.claim(corev1.ReadWriteMany)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: harness.PVName(claim), Annotations: map[string]string{
			harness.AnnProvisionedBy: single, harness.AnnIdentity: m.a.Node.Name,
		}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: single,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: m.directory(claim)}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
	if edit != nil {
		edit(pv)
	}
	m.Write(pv.Spec.HostPath.Path, "data", []byte("precious"))
	made := save(m.Scene, pv)
	m.Eventually("older claim bound", func() error { return m.IsBound(claim) })
	return claim, made
}

// grown requests 2Mi and waits until the PV has them.
func (m *machine) grown(claim *corev1.PersistentVolumeClaim) {
	m.Helper()
	ask(m.Scene, claim, "2Mi")
	m.Eventually("grown", func() error {
		if c := m.Read(claim); c.Status.Capacity.Storage().String() != "2Mi" {
			return m.NotYet(claim.UID, "its capacity is %s", c.Status.Capacity.Storage())
		}
		return nil
	})
}

// One control plane serves all rows, one after another: each needs to be the cluster's only one.
func TestSingleNode(t *testing.T) {
	t.Parallel()
	own := ownPlane(t)
	if err := own.Apply("single-node"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		test func(*testing.T, *harness.Env)
	}{
		{"default class", singleDefaultClass},
		{"what a claim gets", singleClaims},
		{"policy of the agent", singlePolicy},
		{"two nodes at start, empty pool", singleTwoNodes},
		{"a second node later", singleSecondNode},
		{"adoption", singleAdoption},
		{"left alone", singleLeftAlone},
		{"killed", singleKilled},
		{"killed while adopting", singleKilledAdopting},
	} {
		t.Run(row.name, func(t *testing.T) { row.test(t, own) })
	}
}

// A claim that names no class, node and pod gets its volume at once.
func singleDefaultClass(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, harness.Options{})
	m.Shell("kubectl -n " + harness.Namespace + " delete daemonset --all") // no kubelet runs it
	m.a.Restart()
	m.a.AwaitReady()
	m.Shell("kubectl -n " + m.Namespace + " apply -f " + filepath.Join("..", "..", "manifests", "single-node", "test-claim.yaml"))
	claim, err := m.Client.CoreV1().PersistentVolumeClaims(m.Namespace).Get(m.Context(), "hostpath-test-claim", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pv := m.Bound(claim)
	if pv.Spec.StorageClassName != single || pv.Annotations[harness.AnnProvisionedBy] != single || pv.Annotations[harness.AnnIdentity] != m.a.Node.Name {
		t.Errorf("class %s, annotations %v", pv.Spec.StorageClassName, pv.Annotations)
	}
	if pv.Spec.HostPath == nil || pv.Spec.HostPath.Path != m.directory(claim) {
		t.Errorf("source %+v, want %s", pv.Spec.PersistentVolumeSource, m.directory(claim))
	}
	wantTree(m.Scene, m.a.Pool, filepath.Base(m.directory(claim)))
	m.Delete(claim)
	m.Gone(pv.Name)
	m.Eventually("empty pool", func() error { return empty(m.Scene, m.a) })
}

// Modes, capacity, policy and affinity of PVs, and what is refused.
func singleClaims(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, harness.Options{})
	m.a.Restart()
	m.a.AwaitReady()
	retain := m.Class("retain", func(c *storagev1.StorageClass) {
		policy := corev1.PersistentVolumeReclaimRetain
		c.Provisioner, c.ReclaimPolicy = single, &policy
	})
	for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany} {
		claim := m.claim(mode)
		pv := m.Bound(claim)
		hosts := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
		if !slices.Equal(pv.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{mode}) || pv.Spec.Capacity.Storage().String() != "1Mi" ||
			pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
			hosts.Key != corev1.LabelHostname || !slices.Equal(hosts.Values, []string{m.a.Node.Hostname}) {
			t.Errorf("%s: %+v", mode, pv.Spec)
		}
	}
	kept := m.Create(harness.Claim{Class: retain, Size: "1Mi"})
	if pv := m.Bound(kept); pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("policy %s, want that of the class", pv.Spec.PersistentVolumeReclaimPolicy)
	}
	m.AwaitWarning(m.a, m.claim(corev1.ReadWriteOncePod).UID, "ProvisioningFailed", "access mode ReadWriteOncePod is not supported",
		"use ReadWriteOnce or ReadWriteMany or ReadOnlyMany")
	block := m.Create(harness.Claim{Class: single, VolumeMode: corev1.PersistentVolumeBlock})
	m.AwaitWarning(m.a, block.UID, "ProvisioningFailed", "volumeMode Block is not supported")
}

// PV_RECLAIM_POLICY, validated.
func singlePolicy(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, harness.Options{})
	m.a.RestartWith("PV_RECLAIM_POLICY=Keep")
	m.Eventually("refused", func() error {
		if m.a.Ended() != "exit status 2" || !strings.Contains(m.a.Log(), "set it to Delete or Retain") {
			return fmt.Errorf("ended %q: %s", m.a.Ended(), m.a.Log())
		}
		return nil
	})
	m.a.RestartWith("PV_RECLAIM_POLICY=Retain")
	m.a.AwaitReady()
	if pv := m.Bound(m.claim(corev1.ReadWriteOnce)); pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("policy %s, want that of PV_RECLAIM_POLICY", pv.Spec.PersistentVolumeReclaimPolicy)
	}
}

// A second node at start, and an empty pool. A taint makes no difference.
func singleTwoNodes(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, harness.Options{})
	second := m.Node("02")
	m.Shell("kubectl taint node " + second.Name + " node-role.kubernetes.io/control-plane:NoSchedule")
	m.a.Restart()
	m.Eventually("refused", func() error {
		if m.a.Ended() != "exit status 1" {
			return fmt.Errorf("ended %q", m.a.Ended())
		}
		return nil
	})
	for _, want := range []string{m.a.Node.Name + ", " + second.Name, "manifests/legacy", harness.Provisioner} {
		if !strings.Contains(m.a.Log(), want) {
			t.Errorf("the log lacks %q:\n%s", want, m.a.Log())
		}
	}
}

// A second node while volumes exist. Existing volumes grow and are deleted; new claims wait until
// the node is cordoned, or gone.
func singleSecondNode(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, harness.Options{})
	m.a.Restart()
	m.a.AwaitReady()
	grows, leaves := m.claim(corev1.ReadWriteMany), m.claim(corev1.ReadWriteOnce)
	m.Bound(grows)
	m.Bound(leaves)
	second := m.Node("02")
	m.a.AwaitUnready(`only node.*` + second.Name)
	m.waits(second, grows, leaves)
	m.Cordon(second, true)
	later := m.claim(corev1.ReadWriteOnce)
	m.Bound(later)
	m.a.AwaitReady()

	m.Cordon(second, false)
	m.a.AwaitUnready(`only node.*` + second.Name)
	m.a.Stop()
	m.a.Restart() // with volumes, the agent goes on
	waiting := m.claim(corev1.ReadWriteMany)
	m.AwaitWarning(m.a, waiting.UID, "ProvisioningFailed", m.a.Node.Name+", "+second.Name)
	m.Delete(later)
	m.Gone(harness.PVName(later))
	m.remove(second.Name)
	m.Bound(waiting)
	m.a.AwaitReady()
}

// waits checks that a new claim waits with one Warning, that the Node has one, and that existing
// volumes grow and are deleted.
func (m *machine) waits(second harness.Node, grows, leaves *corev1.PersistentVolumeClaim) {
	m.Helper()
	waiting := m.claim(corev1.ReadWriteMany)
	names := m.a.Node.Name + ", " + second.Name
	m.AwaitWarning(m.a, waiting.UID, "ProvisioningFailed", names, "remove or cordon")
	m.AwaitWarning(m.a, types.UID(m.a.Node.Name), "SeveralNodes", names)
	m.grown(grows)
	m.Delete(leaves)
	m.Gone(harness.PVName(leaves))
	if err := m.IsPending(waiting); err != nil {
		m.Error(err)
	}
	m.Cordon(second, true)
	m.Bound(waiting)
	m.Cordon(second, false)
	m.a.AwaitUnready(`only node.*` + second.Name)
}
