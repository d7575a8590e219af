//go:build vm

package disks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// The disks of the machine, which e2e/vm makes, by what they have at dataAt before and after the
// reboot.
const (
	// stateDisk keeps the API's PVs over the reboot.
	stateDisk = "/dev/vda"
	wwnPrefix = "naa.5000c500a00000"
	// Names in slots are those of the targets of the SCSI controller, as udev has them in
	// /dev/disk/by-path. Node m has a name of its own for the LUN that both nodes reach.
	slots    = "/tmp/slots"
	slotsOfM = "/tmp/slots-of-m"
)

// vmBench runs the agents of two nodes in the machine. Node n offers all SCSI disks, and node m the
// LUN that both reach.
func vmBench(t *testing.T, pvs ...corev1.PersistentVolume) *bench {
	t.Helper()
	linkSlots(t)
	if err := errors.Join(os.Mkdir(slotsOfM, 0o700),
		os.Symlink(slotOf(t, wwnPrefix+"09"), filepath.Join(slotsOfM, "lun"))); err != nil {
		t.Fatal(err)
	}
	shared := configMap("deviceDir="+slotsOfM, "deviceNameFilter=.", "wipe=quick")
	shared.Name, shared.Namespace = "shared", "ns"
	b := vmNode(t, "n", pvs, shared, vmNodeObject("m", "shared"))
	other := New(Config{Client: apitest.Listing(b.client), Events: b.recorder, Node: "m", Namespace: "ns",
		Interval: time.Minute})
	go func() { _ = other.Run(t.Context()) }()
	b.start()
	t.Cleanup(b.stop)
	return b
}

// vmNode returns the agent of a node, which offers all SCSI disks of the machine once the caller
// starts it. The API server has the PVs and the objects.
func vmNode(t *testing.T, node string, pvs []corev1.PersistentVolume, objects ...runtime.Object) *bench {
	t.Helper()
	all := configMap("deviceDir="+slots, "deviceNameFilter=.", "wipe=quick")
	all.Namespace = "ns"
	b := &bench{T: t, node: node, client: fake.NewClientset(append(objects, all, vmNodeObject(node, all.Name))...)}
	for _, pv := range pvs {
		if _, err := b.client.CoreV1().PersistentVolumes().Create(t.Context(), &pv, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.numberPVs("boot-" + fmt.Sprint(len(pvs)) + "-")
	b.recorder = events.New(b.client, node)
	t.Cleanup(b.recorder.Close)
	return b
}

func vmNodeObject(name, configMap string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name),
		Annotations: map[string]string{AnnSpec: configMap}}}
}

// linkSlots makes the names of the disks.
func linkSlots(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(slots, 0o700); err != nil {
		t.Fatal(err)
	}
	disks, err := filepath.Glob("/sys/block/sd*/device")
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range disks {
		address, err := filepath.EvalSymlinks(device) // ends with host:channel:target:lun
		if err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(slots, "target-"+strings.Split(filepath.Base(address), ":")[2])
		if err := os.Symlink("/dev/"+filepath.Base(filepath.Dir(device)), link); err != nil {
			t.Fatal(err)
		}
	}
}

// slotOf returns the name that leads to the disk of that ID, the first of several.
func slotOf(t *testing.T, id string) string {
	t.Helper()
	all, err := disk.List(slots, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.ID == id {
			return d.Path
		}
	}
	t.Fatalf("no SCSI disk with the ID %q: %+v", id, all)
	return ""
}

// on returns the PVs of a disk.
func (b *bench) on(id string) (found []corev1.PersistentVolume) {
	b.Helper()
	for _, pv := range allPVs(b.T, b.client) {
		if strings.HasSuffix(pv.Annotations[AnnDisk], id) {
			found = append(found, pv)
		}
	}
	return found
}

// settled waits until all devices of the node have one of the states.
func (b *bench) settled() {
	b.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		reports := b.controller.Reports()
		if len(reports) > 0 && !slices.ContainsFunc(reports,
			func(r Report) bool { return r.State == Wiping || r.State == Released }) {
			for _, r := range reports {
				b.Logf("%+v", r)
			}
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%+v", reports)
		}
	}
}

// Every disk is offered once, except for those that may be one, and the one that carries data.
func TestVMDisksBeforeReboot(t *testing.T) {
	b := vmBench(t)
	b.settled()
	for _, id := range []string{wwnPrefix + "01", wwnPrefix + "02", "serial-3", "serial-4"} {
		if pvs := b.on(id); len(pvs) != 1 {
			t.Errorf("%s: %d PVs, want 1", id, len(pvs))
		}
	}
	if pvs := b.on("alike"); len(pvs) != 0 {
		t.Errorf("two disks with one serial number have %d PVs", len(pvs))
	}
	b.report(slotOf(t, wwnPrefix+"0a"), Refused)
	// One LUN by two paths and at two nodes.
	lun := b.on(wwnPrefix + "09")
	if len(lun) != 1 {
		t.Fatalf("the LUN has %d PVs", len(lun))
	}
	l, err := b.client.CoordinationV1().Leases("ns").Get(t.Context(), leaseName(wwnPrefix+"09"), metav1.GetOptions{})
	if err != nil || holderOf(l) != lun[0].Labels[LabelNode] {
		t.Errorf("Lease %+v (%v), and the PV is of node %s", l, err, lun[0].Labels[LabelNode])
	}
	// Tenants write to all disks.
	for _, pv := range allPVs(b.T, b.client) {
		b.claimed(&pv, corev1.VolumeBound)
		writeTo(t, pv.Spec.Local.Path, tenant(pv), dataAt)
	}
	b.save()
}

// save writes the API's PVs onto the state disk, for the next boot.
func (b *bench) save() {
	b.Helper()
	state, err := json.Marshal(allPVs(b.T, b.client))
	if err != nil {
		b.Fatal(err)
	}
	writeTo(b.T, stateDisk, string(state), 0)
}

// saved returns the PVs of the boot before.
func saved(t *testing.T) (pvs []corev1.PersistentVolume) {
	t.Helper()
	data, err := os.ReadFile(stateDisk)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&pvs); err != nil {
		t.Fatal(err)
	}
	for i := range pvs {
		pvs[i].ResourceVersion = ""
	}
	return pvs
}

// tenant returns what the tenant of a PV writes at dataAt.
func tenant(pv corev1.PersistentVolume) string { return "tenant of " + string(pv.UID) }

// holds reports whether the disk has what the tenant of the PV wrote. It is false if there is no
// disk at the path.
func holds(path string, pv corev1.PersistentVolume) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	got := make([]byte, len(tenant(pv)))
	_, err = f.ReadAt(got, dataAt)
	return err == nil && string(got) == tenant(pv)
}

// The names of disks were swapped meanwhile. All claims but those of the second of each pair were
// deleted: only what is proven to be the disk of a Released PV is wiped.
func TestVMDisksAfterReboot(t *testing.T) {
	pvs := saved(t)
	path := map[string]string{} // of PVs by the ID of their disks, before the reboot
	for i, pv := range pvs {
		path[pv.Annotations[AnnDisk]] = pv.Spec.Local.Path
		if id := pv.Annotations[AnnDisk]; !strings.HasSuffix(id, "02") && !strings.HasSuffix(id, "serial-4") {
			pvs[i].Status.Phase = corev1.VolumeReleased
		}
	}
	b := vmBench(t, pvs...)
	if now := slotOf(t, wwnPrefix+"02"); now != path[wwnPrefix+"01"] {
		t.Fatalf("the disk of the second PV is at %s, want the path of the first, %s", now, path[wwnPrefix+"01"])
	}
	b.settled()
	for _, pv := range pvs {
		id := pv.Annotations[AnnDisk]
		if id == wwnPrefix+"09" {
			continue // its names did not change: it is wiped, and offered again, once
		}
		if now := b.named(pv.Name); now.UID != pv.UID {
			t.Errorf("the PV of the disk %q was replaced", id)
		}
		// Whatever path leads to the disk now, it has what its tenant wrote.
		if !slices.ContainsFunc(b.controller.Reports(), func(r Report) bool { return holds(r.Device, pv) }) {
			t.Errorf("the data of the tenant on the disk %q is gone", id)
		}
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		lun := b.on(wwnPrefix + "09")
		if len(lun) == 1 && lun[0].Status.Phase != corev1.VolumeReleased {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the LUN is not offered again: %+v", lun)
		}
	}
}
