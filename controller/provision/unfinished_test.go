package provision

import (
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/apitest"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume is undone only if nothing speaks for it. Each row has one thing that does.
func TestUnfinished(t *testing.T) {
	c := examiner(t)
	pool := c.pools.All()[0]
	pv := goodPV(t, c, "now")
	v, err := pool.Create(volume.Spec{Name: pv.Name, Bytes: 1, PV: pv.Name, Owner: ownerOf(pv), Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	late := v.Created.Add(unfinishedAge)
	for what, row := range map[string]struct {
		now  time.Time
		edit func(*volume.Volume)
		want bool
	}{
		"abandoned":   {late, func(*volume.Volume) {}, true},
		"new":         {late.Add(-time.Second), func(*volume.Volume) {}, false},
		"a pod's own": {late, func(v *volume.Volume) { v.Ephemeral = true }, false},
		"by hand":     {late, func(v *volume.Volume) { v.PV = "" }, false},
		"deleted":     {late, func(v *volume.Volume) { v.State = volume.Deleting }, false},
	} {
		v := v
		row.edit(&v)
		if got := c.pvs.unfinished(v, row.now); got != row.want {
			t.Errorf("%s: unfinished: %v", what, got)
		}
	}

	// The API server has neither PV nor claim, and still it is too early.
	c.pvs.finishIn(t.Context(), pool)
	if _, err := pool.Get(v.Name); err != nil {
		t.Errorf("a volume whose PV may still be saved: %v", err)
	}
	pv.UID = "saved"
	if err := c.pvs.informer.GetStore().Add(pv); err != nil {
		t.Fatal(err)
	}
	if c.pvs.unfinished(v, late) {
		t.Error("a volume whose PV is saved is unfinished")
	}
}

// The library takes any PV of the name for the one that it wanted to save.
func TestSaveOverAnothersPV(t *testing.T) {
	for _, ours := range []bool{true, false} {
		c := examiner(t)
		pv := goodPV(t, c, "now")
		there := pv.DeepCopy()
		there.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		if !ours {
			there.Spec.ClaimRef.UID = nextUID
		}
		said := 0
		answers(t, c, func(r *http.Request) (int, any) {
			switch {
			case r.Method == http.MethodGet:
				return http.StatusOK, there
			case r.URL.Path == "/api/v1/persistentvolumes":
				return http.StatusConflict, apitest.Failure(http.StatusConflict, metav1.StatusReasonAlreadyExists)
			}
			said++
			return http.StatusCreated, map[string]string{"kind": "Event", "apiVersion": "v1"}
		})
		c.events = events.New(c.client, c.node)
		_, err := savingClient{c.client, c}.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) != ours || err == nil {
			t.Errorf("the claim's PV: %v: %v", ours, err)
		}
		if (said == 0) != ours {
			t.Errorf("the claim's PV: %v: %d events", ours, said)
		}
	}
}
