package pvwrite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// pvAt is the PV as it was at a version.
func pvAt(version string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "one", ResourceVersion: version}}
}

// TestPatch makes the same change of a PV as it is read at each version: whether it is sent, called
// reverted, and how long it then waits.
func TestPatch(t *testing.T) {
	type pass struct {
		read    string // the version that the caller has
		made    string // the version that the change makes if it is sent
		elapsed time.Duration
		wait    time.Duration
		sent    bool
		report  bool
	}
	for what, passes := range map[string][]pass{
		"the cache does not have the change yet": {
			{read: "1", made: "2", sent: true}, {read: "1"}, {read: "1", elapsed: time.Hour}},
		"another program reverts it, each time": {
			{read: "1", made: "2", sent: true}, {read: "3", report: true, wait: time.Minute},
			{read: "3", elapsed: time.Minute, report: true, made: "4", sent: true},
			{read: "5", elapsed: time.Minute, report: true, wait: time.Minute},
			{read: "5", elapsed: time.Minute, report: true, made: "6", sent: true}, {read: "5"}},
		"a webhook takes it out of the request": {
			{read: "1", made: "1", sent: true}, {read: "1", report: true, wait: time.Minute}},
	} {
		var w Writes
		begin := time.Now()
		now := begin
		w.Now = func() time.Time { return now }
		var made string
		sent, reports := 0, 0
		api := fake.NewClientset()
		api.PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
			sent++
			return true, pvAt(made), nil
		})
		again := Again{Report: func() { reports++ }, Pause: func(n int) time.Duration { return time.Duration(n+1) * time.Minute }}
		for i, p := range passes {
			now, made = now.Add(p.elapsed), p.made
			sent, reports = 0, 0
			meta := map[string]any{"ownerReferences": []metav1.OwnerReference{{Name: "x", Controller: new(bool)}}}
			wait, err := w.Patch(context.Background(), api, pvAt(p.read), meta, nil, again)
			if err != nil || (sent > 0) != p.sent || (reports > 0) != p.report || wait != p.wait {
				t.Errorf("%s, pass %d: %d sent, %d reports, wait %s, %v; want %+v", what, i, sent, reports, wait, err, p)
			}
		}
	}
}

// TestOnlyHere holds the operator's other packages to Writes: what was read from a cache tells nothing of
// a change that was just made.
func TestOnlyHere(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "live.PatchPV(") && !strings.Contains(f, "pvwrite") {
			t.Errorf("%s changes a PV without Writes", f)
		}
	}
}
