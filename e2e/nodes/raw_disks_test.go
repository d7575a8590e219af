package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// What manifests/local-pv calls things.
const (
	disksSet    = "hostpath-provisioner-disks"
	disksLabel  = "k8s-app=" + disksSet
	disksClass  = "local-storage"
	disksOfNode = "local-pv-provisioner.cybozu.com/node"
)

const (
	secret = "secret of the first tenant"
	// diskMiB is the size of the disks: mkfs.xfs accepts no smaller ones.
	diskMiB = 512
	// at is where tenants write to a block device.
	at = 100 << 20
)

var zeros = string(make([]byte, len(secret)))

// Raw disks, offered by manifests/local-pv to pods on real kubelets. One node offers block devices,
// the other one filesystems.
func TestDisks(t *testing.T) {
	t.Parallel()
	devices := deployDisks(t)
	t.Run("pods", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, *rawDisks){
			"block": blockTenants, "filesystem": filesystemTenants, "deletedbyhand": diskPVDeletedByHand, "killedmidwipe": diskKilledMidWipe,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, &rawDisks{Scene: newScene(t), dir: filepath.Join(devices, name)})
			})
		}
	})
	csiForm{label: disksLabel}.permitted(t)
	// Kubernetes makes this file in the /dev of the host unless the manifest names another path.
	if err := harness.Missing("/dev/termination-log"); err != nil {
		t.Error(err)
	}
}

// deployDisks applies the manifests as a user would, and returns the directory of the links to the
// disks.
func deployDisks(t *testing.T) (devices string) {
	t.Helper()
	devices, err := os.MkdirTemp("/dev", "hpp-nodes-")
	if err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(root, "manifests", "local-pv")
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", disksLabel, "--prefix", "--tail=60")
			t.Log(logs)
		}
		for _, n := range local.Nodes() {
			annotateNode(t, n, nil)
		}
		s := &harness.Scene{TB: t, Env: env}
		s.Eventually("no PVs of disks", func() error {
			left, err := kubectl("", "get", "pv", "-l", disksOfNode, "-o", "name")
			if err == nil && left != "" {
				err = errors.New(left)
			}
			return err
		})
		for _, file := range []string{"daemonset", "storageclass", "configmaps", "rbac", "serviceaccount"} {
			if _, err := kubectl("", "delete", "--cascade=foreground", "-f", filepath.Join(manifests, file+".yaml")); err != nil {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(devices); err != nil {
			t.Error(err)
		}
	})
	for _, args := range [][]string{
		{"apply", "-k", manifests}, {"-n", harness.Namespace, "rollout", "status", "daemonset/" + disksSet, "--timeout=180s"},
	} {
		if _, err := kubectl("", args...); err != nil {
			t.Fatal(err)
		}
	}
	configureDisks(t, "local-pv-block", map[string]string{"deviceDir": devices, "deviceNameFilter": "^block-"})
	configureDisks(t, "local-pv-ext4", map[string]string{"deviceDir": devices, "deviceNameFilter": "^filesystem-", "mountOptions": "nodiratime"})
	annotateNode(t, one, "local-pv-block")
	annotateNode(t, other, "local-pv-ext4")
	return devices
}

func annotateNode(t testing.TB, n *cluster.Node, configMap any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{harness.AnnDisks: configMap}}})
	if err == nil {
		_, err = kubectl("", "patch", "node", n.Name, "--type=merge", "-p", string(patch))
	}
	if err != nil {
		t.Error(err)
	}
}

// configureDisks changes a ConfigMap.
func configureDisks(t testing.TB, name string, data map[string]string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": data})
	if err == nil {
		_, err = kubectl("", "-n", harness.Namespace, "patch", "configmap", name, "--type=merge", "-p", string(patch))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A pod writes to a block device, and the next tenant's pod reads zeros from the whole device.
func blockTenants(t *testing.T, s *rawDisks) {
	disk := s.Loop(diskMiB)
	path := s.link(disk, "block-tenants")
	pv := s.offered(one, path, "")
	if *pv.Spec.VolumeMode != corev1.PersistentVolumeBlock || pv.Name != "local-"+one.Name+"-block-tenants" {
		t.Errorf("PV %+v", pv)
	}
	claim := s.claimFor("first", pv)
	p := pod{claim: claim.Name, script: writeBlock, change: asBlock}.run(s.Scene)
	if err := errors.Join(disk.Has(0, secret), disk.Has(at, secret)); p.Spec.NodeName != one.Name || err != nil {
		t.Errorf("the pod runs on %s; %v", p.Spec.NodeName, err)
	}
	s.state(one, path, "bound", "")
	end(s.Scene, p)
	s.Delete(claim)
	again := s.offered(one, path, pv.UID)
	if err := errors.Join(disk.Has(0, zeros), disk.Has(at, zeros)); err != nil {
		t.Error(err)
	}
	claim = s.claimFor("second", again)
	end(s.Scene, pod{claim: claim.Name, script: readBlock, change: asBlock}.run(s.Scene))
	s.Delete(claim)
	s.offered(one, path, again.UID)
}

// The kubelet makes each filesystem, and the next tenant gets one without the files of the first.
// One disk is offered with each: a changed ConfigMap is for the PV that comes after the wipe.
func filesystemTenants(t *testing.T, s *rawDisks) {
	disk := s.Loop(diskMiB)
	path := s.link(disk, "filesystem-tenants")
	pv := s.offered(other, path, "")
	for i, fsType := range []string{"ext4", "xfs", "btrfs"} {
		if *pv.Spec.Local.FSType != fsType {
			t.Fatalf("the PV has %s, want %s", *pv.Spec.Local.FSType, fsType)
		}
		claim := s.claimFor(fmt.Sprintf("tenant-%d", i), pv)
		p := pod{claim: claim.Name, script: "set -e; test ! -e /data/file; echo " + secret + " >/data/file; sync; grep ' /data ' /proc/mounts"}.run(s.Scene)
		if got := output(s.Scene, p); p.Spec.NodeName != other.Name || !strings.Contains(got, " /data "+fsType+" ") || !strings.Contains(got, "nodiratime") {
			t.Errorf("%s: the pod runs on %s with %q", fsType, p.Spec.NodeName, got)
		}
		if fsType != "btrfs" {
			next := map[string]string{"ext4": "xfs", "xfs": "btrfs"}[fsType]
			configureDisks(t, "local-pv-ext4", map[string]string{"fsType": next})
		}
		end(s.Scene, p)
		s.Delete(claim)
		pv = s.offered(other, path, pv.UID)
	}
	// The last filesystem once more: a second tenant of the same kind.
	claim := s.claimFor("last", pv)
	end(s.Scene, pod{claim: claim.Name, script: "set -e; test ! -e /data/file"}.run(s.Scene))
	s.Delete(claim)
	s.offered(other, path, pv.UID)
}

// An administrator deletes the PV of a pod that uses the disk as a block device: nothing is written
// to the disk while the kubelet's loop device is on it, nor afterwards, because the disk carries
// data.
func diskPVDeletedByHand(t *testing.T, s *rawDisks) {
	disk := s.Loop(diskMiB)
	path := s.link(disk, "block-deleted")
	pv := s.offered(one, path, "")
	claim := s.claimFor("tenant", pv)
	p := pod{claim: claim.Name, script: writeBlock, change: asBlock}.run(s.Scene)
	s.ForcePVAway(pv.Name)
	s.state(one, path, "busy", "loop device")
	kept := func() error { return errors.Join(disk.Has(0, secret), disk.Has(at, secret)) }
	s.Once("the tenant's data stays", kept) // the process tried to wipe the disk
	end(s.Scene, p)
	s.state(one, path, "refused", "existing: wipe")
	s.Delete(claim)
	if err := kept(); err != nil {
		t.Error(err)
	}
}

// The process is killed while it wipes a disk: the PV stays Released, and the next process wipes
// the disk from the beginning.
func diskKilledMidWipe(t *testing.T, s *rawDisks) {
	const largeMiB = 4 << 10 // reading it back takes some seconds
	disk := s.Loop(largeMiB)
	path := s.link(disk, "block-killed")
	pv := s.offered(one, path, "")
	claim := s.claimFor("tenant", pv)
	end(s.Scene, pod{claim: claim.Name, script: writeBlock, change: asBlock}.run(s.Scene))
	disk.Write(largeMiB<<20-100, secret)
	p, err := podOf(s.Scene, one, disksSet)
	must(s.Scene, "process", err)
	s.Delete(claim)
	s.Within(soon, "wiping", func() error {
		text, err := s.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name + ":8080/proxy/devices").DoRaw(s.Context())
		if err == nil && !strings.Contains(string(text), `"state":"wiping","pv":"`+pv.Name+`","wiped"`) {
			err = fmt.Errorf("devices %s", text)
		}
		return err
	})
	zero := int64(0) // the wipe goes on meanwhile: kubectl would take too long to start
	must(s.Scene, "kill", s.Client.CoreV1().Pods(p.Namespace).Delete(s.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	if now := s.PV(pv.Name); now.UID != pv.UID || now.Status.Phase != corev1.VolumeReleased {
		t.Errorf("the PV is %v", now)
	}
	s.offered(one, path, pv.UID)
	if err := errors.Join(disk.Has(0, zeros), disk.Has(at, zeros), disk.Has(largeMiB<<20-100, zeros)); err != nil {
		t.Error(err)
	}
}
