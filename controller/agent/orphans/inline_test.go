package orphans

import (
	"os"
	"strings"
	"testing"

	clientrecord "k8s.io/client-go/tools/record"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The CSI driver notes that the pod of an inline volume is gone. That is reported,
// and the API server is asked nothing: no PV ever named the volume.
func TestInlineOrphanIsReported(t *testing.T) {
	o, v := orphaned(t, answers{})
	pool := o.Pools.All()[0]
	if err := pool.Delete(v.Name); err != nil {
		t.Fatal(err)
	}
	own, err := pool.Create(volume.Spec{Name: "csi-1", Bytes: 1 << 20, Ephemeral: true, Owner: record.Owner{Namespace: "ns", Name: "web", UID: "2"}})
	if err != nil {
		t.Fatal(err)
	}
	if o.check(t.Context()); counts(t, o) {
		t.Error("counted while its pod lives")
	}
	if _, err := pool.NoteOrphan(own.Name, "pod ns/web (2) is gone", 0); err != nil {
		t.Fatal(err)
	}
	if o.check(t.Context()); !counts(t, o) {
		t.Error("not counted")
	}
	if _, err := os.Lstat(own.Path); err != nil {
		t.Errorf("it is not the orphan search that deletes it: %v", err)
	}
	select {
	case said := <-o.Events.EventRecorder.(*clientrecord.FakeRecorder).Events:
		if !strings.Contains(said, "has 1 inline volume without a pod, deleted when unused: csi-1") {
			t.Error(said)
		}
	default:
		t.Error("no event")
	}
}
