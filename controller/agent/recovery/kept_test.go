package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientrecord "k8s.io/client-go/tools/record"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// undeleter is a node whose volume was deleted, and whose pool keeps it.
type undeleter struct {
	*node
	*Undeleter
	recorded *clientrecord.FakeRecorder
	id       string
	changed  []string
}

func newUndeleter(t *testing.T, cluster string) *undeleter {
	t.Helper()
	k := &undeleter{node: newNodeKeeping(t, cluster, had(), time.Hour), recorded: clientrecord.NewFakeRecorder(8)}
	k.Undeleter = &Undeleter{Planner: k.node.Planner, Events: k.recorded, Node: events.Node("node-01"), Changed: func(p *volume.Pool) { k.changed = append(k.changed, p.Name()) }}
	if err := os.WriteFile(filepath.Join(k.made.Path, "file"), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.remove(t)
	return k
}

// remove deletes the volume.
func (k *undeleter) remove(t *testing.T) {
	t.Helper()
	if err := k.pool.Delete("pvc-1"); err != nil {
		t.Fatal(err)
	}
	all := k.pool.Kept()
	if len(all) != 1 {
		t.Fatalf("kept: %+v", all)
	}
	k.id = all[0].ID
}

func (k *undeleter) request(o recovery.Options) Request {
	return Request{Options: o, Named: orphans.Named{Pool: k.pool.ID(), Name: "pvc-1", Created: k.made.Created, Trash: k.id}}
}

// A kept volume is listed with its former claim. Its plan has the objects that it had, and it comes back
// with its data, with policy Retain and with no note of an orphan.
func TestUndelete(t *testing.T) {
	k := newUndeleter(t, "here")
	all, err := k.List(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != k.id || all[0].Namespace != "shop" || all[0].Claim != "data" || all[0].PV != "pvc-1" ||
		time.Until(all[0].Until) < 59*time.Minute || time.Since(all[0].Deleted) > time.Minute || all[0].NotOffered != "" {
		t.Fatalf("%+v, %v", all, err)
	}
	v, err := k.Undeleter.Plan(t.Context(), k.request(recovery.Options{}))
	if err != nil || v.Verdict != recovery.Made || v.ClaimWrite != recovery.CreateClaim || !v.PVWrite || v.Kept != k.id || v.PVUID != "pv" ||
		v.Objects.PV.Annotations[contract.AnnFormerPolicy] != "Delete" || *v.Objects.Claim.Spec.StorageClassName != "csi" || v.Objects.PV.Spec.CSI.VolumeHandle != "pvc-1" {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := recovery.CheckObjects(v, "node-01", contract.CSIProvisioner, "shop"); err != nil {
		t.Errorf("the plugin would refuse the plan: %v", err)
	}
	back, err := k.Undelete(t.Context(), k.request(recovery.Options{}))
	if err != nil || back.Name != "pvc-1" || back.Policy != "Delete" || !slices.Equal(k.changed, []string{"legacy"}) {
		t.Fatalf("%+v, %v, changed %v", back, err, k.changed)
	}
	if data, err := os.ReadFile(filepath.Join(k.pool.Path(), "pvc-1", "file")); string(data) != "data" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if r, _ := k.pool.Cached("pvc-1"); r.ReclaimPolicy != "Retain" || r.Orphan.Why != "" || r.PVUID != "pv" || r.State != record.Bound {
		t.Errorf("%+v", r)
	}
	select {
	case e := <-k.recorded.Events:
		if !strings.Contains(e, events.VolumeUndeleted) {
			t.Error(e)
		}
	default:
		t.Error("no event")
	}
	// A second call finds nothing, and neither does one about an earlier generation.
	if _, err := k.Undelete(t.Context(), k.request(recovery.Options{})); !errors.Is(err, volume.ErrNotFound) {
		t.Errorf("a second call: %v", err)
	}
	if all, _ := k.List(t.Context()); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// What could delete the volume again, or may be of another cluster, keeps it where it is.
func TestUndeleteRefuses(t *testing.T) {
	pv := func(uid types.UID, phase string) corev1.PersistentVolume {
		pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: uid}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-1"}
		pv.Status.Phase = corev1.PersistentVolumePhase(phase)
		return pv
	}
	for what, row := range map[string]struct {
		cluster string
		change  func(*undeleter)
		options recovery.Options
		want    string
	}{
		"another cluster":      {"there", nil, recovery.Options{}, "--from-cluster=there"},
		"the cluster is named": {"there", nil, recovery.Options{FromCluster: "there"}, ""},
		"no cluster":           {"", nil, recovery.Options{}, "names no cluster"},
		"a Released PV":        {"here", func(k *undeleter) { k.says[atPV] = pv("pv", "Released") }, recovery.Options{}, "is Released, and its end"},
		"another PV":           {"here", func(k *undeleter) { k.says[atPV] = pv("other", "Bound") }, recovery.Options{}, "not the one that the volume had"},
		"its own PV, Bound": {"here", func(k *undeleter) {
			own := pv("pv", "Bound")
			own.Annotations = map[string]string{contract.AnnPool: k.pool.ID()}
			k.says[atPV] = own
		}, recovery.Options{}, ""},
		"the API server is away": {"here", func(k *undeleter) { k.says[atPV] = 503 }, recovery.Options{}, "read PV pvc-1"},
		"a name in use": {"here", func(k *undeleter) {
			if err := os.Mkdir(filepath.Join(k.pool.Path(), "pvc-1"), 0o755); err != nil {
				panic(err)
			}
		}, recovery.Options{}, "pvc-1"},
		"a name in the other pool": {"here", func(k *undeleter) {
			if _, err := k.Undeleter.Pools.All()[1].Create(volume.Spec{Name: "pvc-1", Bytes: 1, Owner: record.Owner{UID: "x"}}); err != nil {
				panic(err)
			}
		}, recovery.Options{}, "pvc-1"},
	} {
		k := newUndeleter(t, row.cluster)
		if row.change != nil {
			row.change(k)
		}
		_, err := k.Undelete(t.Context(), k.request(row.options))
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
		if kept := len(k.pool.Kept()) == 1; kept != (row.want != "") {
			t.Errorf("%s: still kept: %v", what, kept)
		}
	}
}

// A caller must have read the volume on the disk: a guess of its name, or what it read of an earlier one
// of that name, names none.
func TestKeptIsNamedByItsRecord(t *testing.T) {
	k := newUndeleter(t, "here")
	for what, edit := range map[string]func(*orphans.Named){
		"no ID": func(n *orphans.Named) { n.Trash = "" }, "another ID": func(n *orphans.Named) { n.Trash = "guess" },
		"another name": func(n *orphans.Named) { n.Name = "pvc-2" }, "another time": func(n *orphans.Named) { n.Created = n.Created.Add(time.Second) },
		"no pool": func(n *orphans.Named) { n.Pool = "" }, "another pool": func(n *orphans.Named) { n.Pool = "x" },
	} {
		r := k.request(recovery.Options{})
		edit(&r.Named)
		_, plan := k.Undeleter.Plan(t.Context(), r)
		_, undelete := k.Undelete(t.Context(), r)
		for _, err := range []error{plan, undelete, k.Undeleter.Remove(t.Context(), r.Named)} {
			if !errors.Is(err, volume.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if err := k.Undeleter.Remove(t.Context(), k.request(recovery.Options{}).Named); err != nil || len(k.pool.Kept()) != 0 || len(k.changed) != 1 {
		t.Errorf("removed: %v, %v, changed %v", err, k.pool.Kept(), k.changed)
	}
}
