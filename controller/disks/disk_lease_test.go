//go:build disk

package disks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/disk"
	"kubevirt.io/hostpath-provisioner/volume/diskid"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

const lun = "naa.600a098038303053453f463045727a2e"

// san is a disk that several nodes reach, and an API.
type san struct {
	*testing.T
	client *fake.Clientset
	image  string
	id     string
	spec   *spec
}

// machine is a node with its own device of the disk: an exclusive open by one does not keep the
// others from it.
type machine struct {
	*Controller
	fake   *fake.Clientset
	object *corev1.Node
	device disk.Device
	at     *sanDevices
}

// sanDevices are the devices of a node: its disk has the ID of the LUN, which sysfs does not show of
// a loop device.
type sanDevices struct {
	hostDevices
	machine *machine
	absent  bool
	boot    string
}

func (s *sanDevices) Boot() string { return s.boot }

func (s *sanDevices) Idle(shared string) (bool, error) {
	if s.absent || !slices.Contains(s.machine.device.Shared(), shared) {
		return false, nil
	}
	return true, disk.Busy(s.machine.device)
}

// newSAN makes the disk, with an ID that all nodes read.
func newSAN(t *testing.T, id string) *san {
	t.Helper()
	s := &san{T: t, client: fake.NewClientset(), image: filepath.Join(t.TempDir(), "lun"), id: id}
	if err := errors.Join(os.WriteFile(s.image, nil, 0o600), os.Truncate(s.image, 8<<20)); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.spec, err = parseSpec(configMap("deviceDir=/dev")); err != nil {
		t.Fatal(err)
	}
	return s
}

// node returns a node, with a client of its own: one that does something between two calls of
// another must not wait for that.
func (s *san) node(name string) *machine {
	s.Helper()
	client := &fake.Clientset{}
	client.AddReactor("*", "*", clienttesting.ObjectReaction(s.client.Tracker()))
	recorder := events.New(client, name)
	s.Cleanup(recorder.Close)
	devices := &sanDevices{boot: "boot-1"}
	m := &machine{
		at: devices, fake: client,
		Controller: New(Config{Client: apitest.Listing(client), Events: recorder, Node: name, Namespace: "ns",
			Interval: time.Minute, Devices: devices}),
		object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}},
		device: disk.At(testdisk.LoopOn(s, s.image)),
	}
	if m.device.Err != nil {
		s.Fatal(m.device.Err)
	}
	m.device.Identity = s.id
	devices.machine = m
	return m
}

// react has a client of the node do something at a call.
func (m *machine) react(verb, resource string, do clienttesting.ReactionFunc) {
	m.fake.PrependReactor(verb, resource, do)
}

// offer has the node offer the disk.
func (s *san) offer(m *machine) error {
	return m.offer(s.Context(), s.at(m, "pv-"+m.node), func(disk.Progress) {})
}

// at returns the disk at a node, with the name of its PV.
func (s *san) at(m *machine, name string) target {
	return target{device: m.device, node: m.object, spec: s.spec, name: name}
}

func (s *san) pvs() []corev1.PersistentVolume { return allPVs(s.T, s.client) }

// holder returns the node that has the Lease of the disk, "" if none has it.
func (s *san) holder() string {
	s.Helper()
	l, err := s.client.CoordinationV1().Leases("ns").Get(s.Context(), leaseName(diskid.Parse(s.id).Shared()), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	} else if err != nil {
		s.Fatal(err)
	}
	return holderOf(l)
}

// withdraw removes the node's PVs and gives up its Leases, as its passes do.
func (s *san) withdraw(c *machine) {
	s.Helper()
	needed := c.leasesOfJobs()
	for _, pv := range s.pvs() {
		if pv.Labels[LabelNode] == c.node {
			if err := s.client.CoreV1().PersistentVolumes().Delete(s.Context(), pv.Name, metav1.DeleteOptions{}); err != nil {
				s.Fatal(err)
			}
		}
	}
	if err := c.releaseLeases(s.Context(), needed, found{}); err != nil {
		s.Fatal(err)
	}
}

// One LUN at two nodes becomes one PV, whatever one node does between any two steps of the other.
func TestDiskAtTwoNodes(t *testing.T) {
	for _, step := range []string{"create leases", "list persistentvolumes", "list persistentvolumeclaims",
		"create persistentvolumes"} {
		t.Run(step, func(t *testing.T) {
			s := newSAN(t, lun)
			a := s.node("node-a")
			b := s.node("node-b")
			var between error
			var once sync.Once
			verb, resource, _ := strings.Cut(step, " ")
			a.react(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				once.Do(func() { between = s.offer(b) })
				return false, nil, nil
			})
			first := s.offer(a)
			pvs := s.pvs()
			if len(pvs) != 1 || (first == nil) == (between == nil) || pvs[0].Labels[LabelNode] != s.holder() {
				t.Fatalf("%d PVs, Lease of %q; one node: %v, the other one between: %v", len(pvs), s.holder(), first, between)
			}
			if !errors.Is(errors.Join(first, between), disk.ErrBusy) {
				t.Errorf("%v, %v, want an ErrBusy", first, between)
			}
			// The node without the Lease gives up nothing, and gets the disk once the other one has
			// withdrawn it.
			winner, loser := a, b
			if between == nil {
				winner, loser = b, a
			}
			s.withdraw(loser)
			if s.holder() != winner.node {
				t.Errorf("the Lease is of %q", s.holder())
			}
			s.withdraw(winner)
			if err := s.offer(loser); err != nil || s.holder() != loser.node {
				t.Errorf("%v; the Lease is of %q", err, s.holder())
			}
		})
	}
}

// Another node has a PV of the disk and no Lease: it was made by an older version, or its Lease was
// deleted.
func TestDiskOfAnotherNodesPV(t *testing.T) {
	for name, edit := range map[string]func(*corev1.PersistentVolume){
		"its ID":           func(*corev1.PersistentVolume) {},
		"a partition's ID": func(pv *corev1.PersistentVolume) { pv.Annotations[AnnDisk] += "-part1" },
		"a path with the WWN": func(pv *corev1.PersistentVolume) {
			pv.Annotations, pv.Spec.Local.Path = nil, "/dev/disk/by-id/wwn-0x"+lun[4:]
		},
		"an equal hostname": func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = affinity("node-a") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSAN(t, lun)
			a := s.node("node-a")
			b := s.node("node-b")
			theirs := newPV("theirs", b.device, s.spec, b.object)
			theirs.UID, theirs.Spec.Local.Path = "theirs", "/dev/not-here"
			edit(theirs)
			if _, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := s.offer(a); !errors.Is(err, disk.ErrBusy) ||
				!strings.Contains(err.Error(), "PV theirs was made for the disk "+lun) {
				t.Errorf("%v", err)
			}
			if a.wiped.Load() != 0 || len(s.pvs()) != 1 {
				t.Errorf("%d bytes were wiped, and there are %d PVs", a.wiped.Load(), len(s.pvs()))
			}
			s.withdraw(a)
			if s.holder() != "" {
				t.Errorf("%s keeps the Lease of a disk that it does not offer", s.holder())
			}
		})
	}
}

// A LUN is one disk at every node, by dm-multipath, by a single path, and below a logical volume. The
// second node neither offers nor wipes it.
func TestDiskMultipathAtTwoNodes(t *testing.T) {
	joined := "dm:mpath-3" + strings.TrimPrefix(lun, "naa.")
	below := func(d *disk.Device) {
		d.Identity, d.Stack.Below = "dm:LVM-a", []disk.Layer{{Identity: joined}}
	}
	is := func(id string) func(*disk.Device) { return func(d *disk.Device) { d.Identity = id } }
	for name, row := range map[string]struct{ a, b func(*disk.Device) }{
		"both by multipath":    {is(joined), is(joined)},
		"the first":            {is(joined), is(lun)},
		"the second":           {is(lun), is(joined)},
		"a partition":          {is(joined), is("dm:part1-mpath-3" + strings.TrimPrefix(lun, "naa."))},
		"a logical volume":     {below, is(lun)},
		"two logical volumes":  {below, below},
		"the second's logical": {is(lun), below},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSAN(t, lun)
			s.spec.existing = true
			a, b := s.node("node-a"), s.node("node-b")
			row.a(&a.device)
			row.b(&b.device)
			if err := s.offer(a); err != nil {
				t.Fatal(err)
			}
			writeTo(t, a.device.Path, "tenant", dataAt)
			if err := s.offer(b); !errors.Is(err, disk.ErrBusy) || len(s.pvs()) != 1 {
				t.Errorf("node-b: %v, %d bytes were wiped, %d PVs", err, b.wiped.Load(), len(s.pvs()))
			}
			has(t, a.device.Path, "tenant", dataAt)
		})
	}
}

// What a disk of dm-multipath is called at another node is not known, unless its name has the ID.
func TestDiskMultipathWithoutAnID(t *testing.T) {
	s := newSAN(t, "dm:mpath-1QEMU_HARDDISK_data-1")
	a := s.node("node-a")
	if err := s.offer(a); err == nil || !strings.Contains(err.Error(), "dm-multipath") || a.wiped.Load() != 0 {
		t.Errorf("%v, %d bytes were wiped", err, a.wiped.Load())
	}
}

// The disk of a Released PV is not wiped while another node has the Lease.
func TestDiskReleasedAtTwoNodes(t *testing.T) {
	s := newSAN(t, lun)
	a := s.node("node-a")
	b := s.node("node-b")
	if err := s.offer(a); err != nil {
		t.Fatal(err)
	}
	pv := newPV("theirs", b.device, s.spec, b.object)
	pv.UID, pv.Status.Phase = "pv-b", corev1.VolumeReleased
	if _, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	writeTo(t, b.device.Path, "secret", dataAt)
	wipe := s.at(b, pv.Name)
	wipe.pv = pv
	err := b.release(t.Context(), wipe, func(disk.Progress) {})
	if !errors.Is(err, disk.ErrBusy) || !strings.Contains(err.Error(), `node "node-a" has Lease ns/disk-`) {
		t.Errorf("%v", err)
	}
	has(t, a.device.Path, "secret", dataAt)
}

// Virtual machines have disks of equal serial numbers, which are not one disk: each node offers its
// own.
func TestDiskSerialsAreAlike(t *testing.T) {
	for _, id := range []string{"serial:data-1", "t10.QEMU_QEMU_HARDDISK_data-1", "naa.3000c500a1b2c3d4",
		"eui.5254000000000001", ""} {
		one, two := newSAN(t, id), newSAN(t, id)
		two.client = one.client
		a := one.node("node-a")
		b := two.node("node-b")
		if err := errors.Join(one.offer(a), two.offer(b)); err != nil || len(one.pvs()) != 2 {
			t.Errorf("%q: %v, %d PVs", id, err, len(one.pvs()))
		}
	}
}

// A Lease is kept while the node works on the disk, and while the disk is wiped and has no PV yet.
func TestDiskLeaseIsKept(t *testing.T) {
	s := newSAN(t, lun)
	a := s.node("node-a")
	refused := true
	a.react("create", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused, nil, errors.New("a policy refuses it")
	})
	wiping, goOn := make(chan struct{}), make(chan struct{})
	a.begin(t.Context(), decision{target: s.at(a, "pv")},
		func(ctx context.Context, at target, report func(disk.Progress)) error {
			return a.offer(ctx, at, func(p disk.Progress) {
				if p.Verified == 0 {
					wiping <- struct{}{}
					<-goOn
				}
				report(p)
			})
		})
	select {
	case <-wiping:
	case <-time.After(time.Minute):
		t.Fatal("the disk is not wiped")
	}
	s.withdraw(a) // a pass
	if s.holder() != "node-a" {
		t.Error("the Lease was given up during the wipe")
	}
	goOn <- struct{}{}
	a.running.Wait()
	s.withdraw(a)
	if s.holder() != "node-a" {
		t.Error("the Lease was given up before the wiped disk had its PV")
	}
	refused = false
	if err := s.offer(a); err != nil {
		t.Fatal(err)
	}
	needed := a.leasesOfJobs()
	pvs := s.pvs()
	if err := a.releaseLeases(t.Context(), needed, found{pvs: []*corev1.PersistentVolume{&pvs[0]}}); err != nil {
		t.Fatal(err)
	}
	if s.holder() != "node-a" {
		t.Error("the Lease was given up while the disk has a PV")
	}
}

// A PV is removed by force, and what it had goes on: its Lease stays, and the other node does not wipe
// the disk.
func TestDiskLeaseOfADiskInUse(t *testing.T) {
	use := func(_ *testing.T, m *machine) func() {
		pod, err := unix.Open(m.device.Path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0) // as a mount has it
		if err != nil {
			panic(err)
		}
		return func() { unix.Close(pod) }
	}
	for name, row := range map[string]struct {
		then func(t *testing.T, m *machine) (end func())
		kept bool
	}{
		"idle":                     {func(*testing.T, *machine) func() { return func() {} }, false},
		"in use":                   {use, true},
		"in use, after a boot":     {func(t *testing.T, m *machine) func() { m.at.boot = "boot-2"; return use(t, m) }, true},
		"absent":                   {func(t *testing.T, m *machine) func() { m.at.absent = true; return func() {} }, true},
		"absent, after a boot":     {func(t *testing.T, m *machine) func() { m.at.absent, m.at.boot = true, "boot-2"; return func() {} }, false},
		"absent, the boot unknown": {func(t *testing.T, m *machine) func() { m.at.absent, m.at.boot = true, ""; return func() {} }, true},
		"it cannot be asked": {func(t *testing.T, m *machine) func() {
			m.device.Err = errors.New("input/output error")
			return func() {}
		}, true},
		"a loop device is over it": {func(t *testing.T, m *machine) func() {
			over := testdisk.LoopOn(t, m.device.Path)
			return func() { testdisk.DetachLoop(t, over) }
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSAN(t, lun)
			s.spec.existing = true
			a, b := s.node("node-a"), s.node("node-b")
			if err := s.offer(a); err != nil {
				t.Fatal(err)
			}
			writeTo(t, a.device.Path, "tenant", dataAt)
			end := row.then(t, a)
			defer end()
			s.withdraw(a)
			s.withdraw(a) // a pass
			err := s.offer(b)
			if kept := errors.Is(err, disk.ErrBusy); kept != row.kept {
				t.Errorf("node-b: %v, %d bytes were wiped; the Lease is of %q", err, b.wiped.Load(), s.holder())
			}
			if row.kept {
				has(t, a.device.Path, "tenant", dataAt)
			}
		})
	}
}

// The path of a PV leads to another disk, as after slots were swapped: what its pods write is on that
// one, so its Lease stays.
func TestDiskLeaseOfAPath(t *testing.T) {
	s := newSAN(t, lun)
	s.spec.existing = true
	a, b := s.node("node-a"), s.node("node-b")
	if err := s.offer(a); err != nil {
		t.Fatal(err)
	}
	s.withdraw(a) // its own PV
	other := found{at: map[string]disk.Device{"/dev/disk/by-path/1": a.device}}
	for _, row := range []struct {
		f    found
		kept bool
	}{{other, true}, {found{}, false}} {
		if err := a.lease(t.Context(), a.device); err != nil {
			t.Fatal(err)
		}
		if err := a.releaseLeases(t.Context(), a.leasesOfJobs(), row.f); err != nil {
			t.Fatal(err)
		}
		if err := b.lease(t.Context(), b.device); errors.Is(err, disk.ErrBusy) != row.kept {
			t.Errorf("node-b: %v; the Lease is of %q", err, s.holder())
		}
	}
}

// A node's host has the disk mounted, and the disk has no PV: another node, which cannot see that, does
// not wipe it until it is unmounted.
func TestDiskLeaseOfADiskOfTheHost(t *testing.T) {
	s := newSAN(t, lun)
	s.spec.existing = true
	a, b := s.node("node-a"), s.node("node-b")
	writeTo(t, a.device.Path, "host", dataAt)
	mount, err := unix.Open(a.device.Path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0) // as a mount has it
	if err != nil {
		t.Fatal(err)
	}
	if err := s.offer(a); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("node-a, whose host uses the disk: %v", err)
	}
	s.withdraw(a) // a pass
	if err := s.offer(b); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("node-b: %v, %d bytes were wiped; the Lease is of %q", err, b.wiped.Load(), s.holder())
	}
	has(t, a.device.Path, "host", dataAt)
	unix.Close(mount)
	s.withdraw(a)
	if err := s.offer(b); err != nil {
		t.Errorf("node-b, after the unmount: %v; the Lease is of %q", err, s.holder())
	}
}

// A Lease that does not say of which disk it is, or in which boot it was taken, is an older version's
// or was changed: nothing but the disk proves that it is not used.
func TestDiskLeaseWithoutNotes(t *testing.T) {
	for name, row := range map[string]struct {
		annotations map[string]string
		absent      bool
		kept        bool
	}{
		"none":                 {nil, false, true},
		"another disk":         {map[string]string{AnnDisk: "naa.5000c500ffffffff", annBoot: "boot-0"}, true, true},
		"no boot":              {map[string]string{AnnDisk: lun}, false, false},
		"no boot, and no disk": {map[string]string{AnnDisk: lun}, true, true},
	} {
		s := newSAN(t, lun)
		a := s.node("node-a")
		a.at.absent = row.absent
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName(lun), Annotations: row.annotations,
			Labels: map[string]string{LabelNodeOlder: "node-a"}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &a.node}}
		if _, err := s.client.CoordinationV1().Leases("ns").Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.withdraw(a)
		if kept := s.holder() != ""; kept != row.kept {
			t.Errorf("%s: kept: %v", name, kept)
		}
	}
}

// A node does not delete Leases of other nodes, or without a holder.
func TestDiskLeasesOfOthers(t *testing.T) {
	s := newSAN(t, lun)
	a := s.node("node-a")
	other, none := "node-b", ""
	for name, holder := range map[string]*string{"disk-b": &other, "disk-none": &none, "disk-nil": nil} {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{LabelNodeOlder: "node-a"}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
		if _, err := s.client.CoordinationV1().Leases("ns").Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.releaseLeases(t.Context(), a.leasesOfJobs(), found{}); err != nil {
		t.Fatal(err)
	}
	list, err := s.client.CoordinationV1().Leases("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("%d Leases are left (%v)", len(list.Items), err)
	}
}

// A role of an older version has no Leases: the disk is not offered, and nothing is written.
func TestDiskLeasesAreForbidden(t *testing.T) {
	s := newSAN(t, lun)
	a := s.node("node-a")
	a.react("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "disk", errors.New("no permission"))
	})
	if err := s.offer(a); err == nil || !strings.Contains(err.Error(), "take Lease ns/disk-") || a.wiped.Load() != 0 ||
		len(s.pvs()) != 0 {
		t.Errorf("%v; %d bytes were wiped, %d PVs", err, a.wiped.Load(), len(s.pvs()))
	}
	a.device.Identity = "serial:data-1" // no other node can have it
	if err := s.offer(a); err != nil {
		t.Error(err)
	}
}
