//go:build disk || vm

package disks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// dataAt is where tenants write: where no filesystem has its signature, and where a probe reads.
const dataAt = 100 << 10

// patience is how long a test waits for a state. Reading back a disk of 2 GiB takes most of it on a
// busy machine.
const patience = 2 * time.Minute

// bench is a controller with a disk, and a fake API: there is no controller manager, so the test
// sets phases. What needs a real one is in e2e/suite.
type bench struct {
	*testing.T
	client     *fake.Clientset
	node       string
	recorder   *events.Recorder
	controller *Controller
	cancel     context.CancelFunc // of the controller that runs
	done       chan error
	device     string
	path       string
}

func newBench(t *testing.T, changes ...string) *bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test attaches disks: run it as root")
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "disk.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 8<<20),
		os.Mkdir(filepath.Join(dir, "dev"), 0o700)); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, node: "n", path: filepath.Join(dir, "dev", "disk")}
	b.device = testdisk.LoopOn(b, image)
	b.link(b.device, "disk")
	cm := configMap(append([]string{"deviceDir=" + filepath.Join(dir, "dev"), "deviceNameFilter=^disk"}, changes...)...)
	cm.Namespace = "ns"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node",
		Annotations: map[string]string{AnnSpec: cm.Name}}}
	b.client = fake.NewClientset(cm, node)
	b.numberPVs("pv-")
	b.recorder = events.New(b.client, b.node)
	t.Cleanup(b.recorder.Close)
	b.start()
	t.Cleanup(func() {
		if b.cancel != nil {
			b.stop()
		}
	})
	return b
}

// numberPVs gives each new PV a UID, and each change a version, as the API server does. A PV that
// changed since it was read is not deleted.
func (b *bench) numberPVs(prefix string) {
	var uids, versions atomic.Int64
	b.client.PrependReactor("update", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pv := a.(clienttesting.UpdateAction).GetObject().(*corev1.PersistentVolume)
		pv.ResourceVersion = fmt.Sprint(versions.Add(1))
		return false, nil, nil
	})
	b.client.PrependReactor("delete", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d := a.(clienttesting.DeleteActionImpl)
		now, err := b.client.Tracker().Get(a.GetResource(), "", d.Name)
		if err != nil || d.DeleteOptions.Preconditions == nil || d.DeleteOptions.Preconditions.ResourceVersion == nil {
			return false, nil, nil
		}
		if has := now.(*corev1.PersistentVolume).ResourceVersion; has != *d.DeleteOptions.Preconditions.ResourceVersion {
			return true, nil, apierrors.NewConflict(corev1.Resource("persistentvolumes"), d.Name, errors.New("it has the version "+has))
		}
		return false, nil, nil
	})
	b.client.PrependReactor("create", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pv := a.(clienttesting.CreateAction).GetObject().(*corev1.PersistentVolume)
		pv.UID = types.UID(fmt.Sprintf("%s%d", prefix, uids.Add(1)))
		return false, nil, nil
	})
}

// await waits until the only device has the state.
func (b *bench) await(state State) Report {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		reports := b.controller.Reports()
		if len(reports) == 1 && reports[0].State == state {
			return reports[0]
		}
		if time.Now().After(end) {
			b.Fatalf("the device is not %s: %+v", state, reports)
		}
	}
}

func (b *bench) pv(uid types.UID) *corev1.PersistentVolume {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		pv, err := b.client.CoreV1().PersistentVolumes().Get(b.Context(), "local-n-disk", metav1.GetOptions{})
		if err == nil && pv.UID == uid {
			return pv
		}
		if time.Now().After(end) {
			b.Fatalf("PV %v, want the one with the UID %s (%v): %+v", pv, uid, err, b.controller.Reports())
		}
	}
}

func (b *bench) phase(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
	b.Helper()
	pv = pv.DeepCopy()
	pv.Status.Phase = phase
	if _, err := b.client.CoreV1().PersistentVolumes().UpdateStatus(b.Context(), pv, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) write(data string) {
	b.Helper()
	f, err := os.OpenFile(b.device, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(data), dataAt); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) read() string {
	b.Helper()
	data, err := os.ReadFile(b.device)
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimRight(string(data[dataAt:dataAt+6]), "\x00")
}

// attach attaches one more disk, as a file of the node's directory.
func (b *bench) attach(name string, bytes int64) (path string) {
	b.Helper()
	image := filepath.Join(b.TempDir(), "disk.img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(image, bytes); err != nil {
		b.Fatal(err)
	}
	return b.link(testdisk.LoopOn(b, image), name)
}

// link puts a device into the node's directory.
func (b *bench) link(device, name string) (path string) {
	b.Helper()
	path = filepath.Join(filepath.Dir(b.path), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.Symlink(device, path); err != nil {
		b.Fatal(err)
	}
	return path
}

// report waits until the path has the state.
func (b *bench) report(path string, state State) Report {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		reports := b.controller.Reports()
		for _, r := range reports {
			if r.Device == path && r.State == state && (state != Available || r.PV != "") { // the PV comes after the wipe
				return r
			}
		}
		if time.Now().After(end) {
			b.Fatalf("%s is not %s: %+v", path, state, reports)
		}
	}
}

func (b *bench) named(name string) *corev1.PersistentVolume {
	b.Helper()
	pv, err := b.client.CoreV1().PersistentVolumes().Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return pv
}

// goneSoon waits until there is no such PV.
func (b *bench) goneSoon(name string) {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if _, err := b.client.CoreV1().PersistentVolumes().Get(b.Context(), name, metav1.GetOptions{}); err != nil {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("PV %s is there", name)
		}
	}
}

// event waits for an event of the reason whose message contains the words.
func (b *bench) event(reason, words string) {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		list, err := b.client.CoreV1().Events("default").List(b.Context(), metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, words) {
				return
			}
		}
		if time.Now().After(end) {
			b.Fatalf("no event %s with %q: %+v", reason, words, list.Items)
		}
	}
}

func (b *bench) configure(changes ...string) {
	b.Helper()
	cm, err := b.client.CoreV1().ConfigMaps("ns").Get(b.Context(), "cm", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, change := range changes {
		key, value, _ := strings.Cut(change, "=")
		cm.Data[key] = value
	}
	if _, err := b.client.CoreV1().ConfigMaps("ns").Update(b.Context(), cm, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// stop ends the controller, and start starts another one.
func (b *bench) stop() {
	b.Helper()
	b.cancel()
	if err := <-b.done; err != nil {
		b.Error(err)
	}
	b.cancel = nil
}

func (b *bench) start() {
	ctx, cancel := context.WithCancel(b.Context())
	b.cancel, b.done = cancel, make(chan error, 1)
	b.controller = New(Config{Client: apitest.Listing(b.client), Events: b.recorder, Node: b.node, Namespace: "ns",
		Interval: time.Minute})
	go func(c *Controller, done chan<- error) { done <- c.Run(ctx) }(b.controller, b.done)
}

// writeTo writes the data of a tenant.
func writeTo(t *testing.T, device, data string, at int64) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(data), at); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) update(pv *corev1.PersistentVolume) {
	b.Helper()
	if _, err := b.client.CoreV1().PersistentVolumes().Update(b.Context(), pv, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// claimed gives a PV to a claim.
func (b *bench) claimed(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
	b.Helper()
	pv = pv.DeepCopy()
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "a", Name: "c", UID: "c1"}
	b.update(pv)
	b.phase(pv, phase)
}

// allPVs returns the PVs of the API server.
func allPVs(t *testing.T, client *fake.Clientset) []corev1.PersistentVolume {
	t.Helper()
	list, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
