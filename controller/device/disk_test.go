//go:build disk

package device

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/events"
)

// dataAt is where tenants write: where no filesystem has its signature, and where a probe reads.
const dataAt = 100 << 10

// bench is a controller with a disk, and an API that does what it is told: there is no controller
// manager, so phases are set by the test. What needs a real one is in e2e/suite.
type bench struct {
	*testing.T
	client     *fake.Clientset
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
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 8<<20), os.Mkdir(filepath.Join(dir, "dev"), 0o700)); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, path: filepath.Join(dir, "dev", "disk")}
	b.device = b.loop(image)
	b.link(b.device, "disk")
	cm := configMap(append([]string{"deviceDir=" + filepath.Join(dir, "dev"), "deviceNameFilter=^disk"}, changes...)...)
	cm.Namespace = "ns"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node", Annotations: map[string]string{AnnSpec: cm.Name}}}
	b.client = fake.NewClientset(cm, node)
	var uids atomic.Int64
	b.client.PrependReactor("create", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pv := a.(clienttesting.CreateAction).GetObject().(*corev1.PersistentVolume)
		pv.UID = types.UID(fmt.Sprintf("pv-%d", uids.Add(1)))
		return false, nil, nil
	})
	b.recorder = events.New(b.client, "n")
	t.Cleanup(b.recorder.Close)
	b.start()
	t.Cleanup(func() {
		if b.cancel != nil {
			b.stop()
		}
	})
	return b
}

// await waits until the only device has the state.
func (b *bench) await(state State) Report {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
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
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
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

// A disk is offered, bound, released, wiped, and offered again by the same name.
func TestDiskLife(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	b.await(Available)
	b.phase(first, corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	b.phase(b.pv("pv-1"), corev1.VolumeReleased)
	b.pv("pv-2")
	if got := b.read(); got != "" {
		t.Errorf("the second tenant reads %q", got)
	}
	if r := b.await(Available); r.PV != "local-n-disk" || r.Bytes != 8<<20 {
		t.Errorf("%+v", r)
	}
}

// A Released PV whose device a claim names by that PV is not wiped, and its PV stays.
func TestDiskNamedByAClaim(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: first.Name}}
	if _, err := b.client.CoreV1().PersistentVolumeClaims("a").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.write("secret")
	b.phase(first, corev1.VolumeReleased)
	if r := b.await(Busy); !strings.Contains(r.Why, "claim a/c names PV local-n-disk") || b.read() != "secret" {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
	b.pv("pv-1")
}

// Another PV of the node, of any provisioner, is on the same device by another path.
func TestDiskOfAnotherPV(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	other := first.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Name: "other"}
	other.Spec.Local.Path = b.device
	if _, err := b.client.CoreV1().PersistentVolumes().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.write("secret")
	b.phase(first, corev1.VolumeReleased)
	if r := b.await(Busy); !strings.Contains(r.Why, "PV other is on it") || b.read() != "secret" {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
}

// A disk that carries data is refused, until the ConfigMap says that it may be wiped.
func TestDiskRefused(t *testing.T) {
	b := newBench(t, "deviceNameFilter=none")
	b.write("secret")
	cm := configMap("deviceDir="+filepath.Dir(b.path), "deviceNameFilter=^disk")
	cm.Namespace = "ns"
	set := func() {
		if _, err := b.client.CoreV1().ConfigMaps("ns").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set()
	if r := b.await(Refused); b.read() != "secret" || !strings.Contains(r.Why, "data without a known signature at byte 65536") {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
	cm.Data["existing"] = "wipe"
	set()
	b.await(Available)
	if got := b.read(); got != "" {
		t.Errorf("the disk has %q", got)
	}
}
