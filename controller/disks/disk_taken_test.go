//go:build disk

package disks

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// hostMakes has the host make a filesystem on the disk, and mount it where this process does not see
// it, or in this mount namespace.
func (b *bench) hostMakes(mounted bool) (unmount func()) {
	b.Helper()
	mnt := b.TempDir()
	run := func(line ...string) {
		b.Helper()
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%q: %v: %s", line, err, out)
		}
	}
	run("mkfs.ext4", "-q", b.device)
	if !mounted {
		return func() {}
	}
	run("mount", b.device, mnt)
	return func() { run("umount", mnt) }
}

// passes has passes follow, with the time that a disk is not read again.
func (b *bench) passes(name string) {
	b.Helper()
	time.Sleep(firstRetry + time.Second)
	b.report(b.attach(name, 8<<20), Available)
}

// A disk that waits for a claim is taken by the host. Its PV is withdrawn, and what the host has there
// is kept under both settings, also once it is not mounted any more.
func TestDiskTakenByTheHost(t *testing.T) {
	for name, row := range map[string]struct {
		existing string
		mounted  bool
		state    State
	}{
		"refuse":              {"refuse", true, Busy},
		"wipe":                {"wipe", true, Busy},
		"not mounted, refuse": {"refuse", false, Refused},
		"not mounted, wipe":   {"wipe", false, Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "existing="+row.existing)
			pv := b.pv("pv-1")
			b.await(Available)
			unmount := b.hostMakes(row.mounted)
			b.passes("disk-2")
			b.goneSoon(pv.Name)
			b.event("DeviceWithdrawn", "Something took the disk while it was offered")
			b.report(b.path, row.state)
			unmount()
			writeTo(t, b.device, "host", 2<<20)
			b.configure("storageClassName=other") // another ConfigMap: what failed is tried at once
			if r := b.report(b.path, Refused); row.existing == "wipe" && !strings.Contains(r.Why, "which came there while the disk was offered") {
				t.Errorf("%+v", r)
			}
			has(t, b.device, "host", 2<<20)
		})
	}
}

// What was written while the agent did not run is found when it starts.
func TestDiskTakenWhileTheAgentIsAway(t *testing.T) {
	b := newBench(t, "existing=wipe")
	pv := b.pv("pv-1")
	b.await(Available)
	b.stop()
	b.hostMakes(false)
	writeTo(t, b.device, "host", 2<<20)
	b.start()
	b.goneSoon(pv.Name)
	b.report(b.path, Refused)
	has(t, b.device, "host", 2<<20)
}

// PVs that stay: one that an administrator gives to another claim, one that gets a claim meanwhile,
// one with data where its wipe left some, and one whose end was not wiped by local-pv-provisioner.
func TestDiskNotTaken(t *testing.T) {
	for name, row := range map[string]struct {
		at   int64
		edit func(*corev1.PersistentVolume)
		told string
	}{
		"bound before": {dataAt, func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnBoundByController] = "yes" },
			"the PV had a claim before, and the next one gets what is on its disk"},
		"data elsewhere": {4<<20 + 8192, func(*corev1.PersistentVolume) {}, ""},
		"the end, local-pv-provisioner's": {8<<20 - 4096, func(pv *corev1.PersistentVolume) {
			delete(pv.Annotations, contract.AnnNodeUID)
			pv.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "node"}}
		}, ""},
		"a claim has it": {dataAt, func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "a", Name: "c"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			pv := b.pv("pv-1")
			b.await(Available)
			b.stop()
			row.edit(pv)
			b.update(pv)
			writeTo(t, b.device, "tenant", row.at)
			b.start()
			b.report(b.path, Available)
			b.passes("disk-2")
			if row.told != "" {
				b.event("DeviceError", row.told)
			}
			if now := b.named(pv.Name); now.UID != pv.UID || now.DeletionTimestamp != nil {
				t.Errorf("the PV is %+v", now)
			}
			has(t, b.device, "tenant", row.at)
		})
	}
}

// A claim takes the PV between the reading and the withdrawal: the API server does not delete a PV
// that changed since it was read.
func TestDiskTakenAndClaimed(t *testing.T) {
	b := newBench(t)
	pv := b.pv("pv-1")
	b.await(Available)
	b.stop()
	b.hostMakes(false)
	var with *metav1.Preconditions
	b.client.PrependReactor("delete", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		with = a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
		return true, nil, apierrors.NewConflict(corev1.Resource("persistentvolumes"), pv.Name, errors.New("it changed"))
	})
	pv.ResourceVersion = "7"
	if err := b.controller.check(t.Context(), target{device: disk.At(b.path), pv: pv}, nil); err != nil {
		t.Fatal(err)
	}
	if with == nil || *with.ResourceVersion != "7" || *with.UID != pv.UID {
		t.Errorf("deleted with the preconditions %+v", with)
	}
}
