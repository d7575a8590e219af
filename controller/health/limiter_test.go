package health_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/record"

	"kubevirt.io/hostpath-provisioner/controller/health"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume that cannot have a limit is said to, once, to whom it belongs; one
// whose pods are not seen is not touched. That volumes get limits is shown where
// there are any: in volume, in the virtual machine.
func TestLimiterSaysOnceWhatIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	p, err := volume.New(volume.Config{Name: "legacy", Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"csi", "hostpath"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Adopt(volume.Spec{Name: name, Bytes: 1 << 20, PV: "pv-" + name,
			Owner: volume.Owner{Namespace: "default", Name: name, UID: "uid"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Create(volume.Spec{Name: "new", Bytes: 1 << 20, Owner: volume.Owner{Namespace: "default", Name: "new", UID: "uid"}}); err != nil {
		t.Fatal(err)
	}
	pools, err := volume.NewPools(p)
	if err != nil {
		t.Fatal(err)
	}
	events := record.NewFakeRecorder(10)
	looked := make(chan string, 10)
	l := health.NewLimiter(pools, events, "node-01", func(r volume.Record) bool {
		looked <- r.Name
		return r.PV == "pv-csi"
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go l.Run(ctx)
	select {
	case e := <-events.Events:
		if !strings.Contains(e, "Warning VolumeNotLimited volume csi on node node-01") || !strings.Contains(e, "no limit can be enforced") {
			t.Error(e)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was said")
	}
	for _, want := range []string{"csi", "hostpath"} {
		if got := <-looked; got != want {
			t.Errorf("looked at %s, want %s", got, want)
		}
	}
	if len(events.Events) > 0 {
		t.Errorf("and %s", <-events.Events)
	}
}
