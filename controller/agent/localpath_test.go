package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/agent/localpath"
	"kubevirt.io/hostpath-provisioner/controller/agent/monitor"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

// stage is a node with PV_DIR at base/pool and a configuration.
type stage struct {
	*testing.T
	dir, pvDir, config string
	args               []string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	clean(t)
	dir := t.TempDir()
	s := &stage{T: t, dir: dir, pvDir: filepath.Join(dir, "base", "pool"), config: filepath.Join(dir, "config.json")}
	t.Setenv("NODE_NAME", "node-01")
	t.Setenv("PV_DIR", s.pvDir)
	if err := os.MkdirAll(s.pvDir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"--compat=local-path", "--local-path-config=" + s.config}
	return s
}

// write makes the paths those of all nodes. A path that is not absolute is below dir.
func (s *stage) write(paths ...string) {
	s.Helper()
	for i, path := range paths {
		if !filepath.IsAbs(path) {
			paths[i] = filepath.Join(s.dir, path)
		}
	}
	text, err := json.Marshal(map[string]any{"nodePathMap": []any{map[string]any{"node": localpath.DefaultNode, "paths": paths}}})
	if err == nil {
		err = os.WriteFile(s.config, text, 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// start builds the agent as a process does. It opens no pool.
func (s *stage) start(pvs ...*corev1.PersistentVolume) *localPools {
	s.Helper()
	o, err := Parse("test", s.args, &bytes.Buffer{})
	if err != nil {
		s.Fatal(err)
	}
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "1", Labels: map[string]string{corev1.LabelHostname: "node-01"}}})
	for _, pv := range pvs {
		if err := client.Tracker().Add(pv); err != nil {
			s.Fatal(err)
		}
	}
	a := &Agent{Options: o, client: apitest.Listing(client), events: events.Discard{}, recorder: events.New(client, "node-01"),
		monitors: map[*volume.Pool]*monitor.PoolMonitor{}, holds: map[string]func() error{}}
	s.Cleanup(a.recorder.Close)
	if err := a.newPools(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(a.Close)
	if err := a.newLoop(); err != nil {
		s.Fatal(err)
	}
	return newLocalPools(a)
}

// Paths of which no agent can make a pool, with words of the reason. They are refused when the
// configuration changes, and left out at a start, where the other paths serve.
func TestImpossiblePaths(t *testing.T) {
	s := newStage(t)
	second := filepath.Join(s.dir, "second")
	if err := os.WriteFile(filepath.Join(s.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = append(s.args, `--datadir=[{"name":"/named","path":"`+s.dir+`/other/.x/csi"}]`, "--endpoint=unix:///csi/csi.sock")
	for path, words := range map[string]string{
		"file":           "it is not a directory; name a directory",
		"file/below":     "a part of " + s.dir + "/file/below is not a directory",
		"/var/lib":       "/var/lib belongs to the whole system",
		"/etc/pool":      "belongs to the operating system",
		"base/pool/.ssd": "in the pool " + s.pvDir + ` it leads to the name ".ssd", which is reserved`,
		"other":          "it leads to the pool " + s.dir + `/other/.x/csi by the name ".x", which is reserved`,
		"/named":         "the pool in " + s.dir + "/other/.x/csi has this name",
		"second/.third":  "in the pool " + second + ` it leads to the name ".third"`,
	} {
		t.Run(path, func(t *testing.T) {
			s := *s
			s.T = t
			s.write(s.pvDir, "second")
			before := s.start()
			s.write(s.pvDir, "second", path)
			next := s.start()
			if err := before.Check(next.localPath.paths()); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("a change: %v, want words %q", err, words)
			}
			if err := next.Check(next.localPath.paths()); err != nil || next.Returned() {
				t.Errorf("with the configuration of its start: %v, returned: %t", err, next.Returned())
			}
			served, err := next.pathsOf("any")
			if slices.Sort(served); err != nil || !slices.Equal(served, []string{s.pvDir, second}) {
				t.Errorf("new volumes go to %q, %v", served, err)
			}
			next.pools.Open()
			for _, pool := range next.pools.All() {
				err := pool.Ready()
				switch serves := slices.Contains(served, pool.Path()); {
				case serves && err != nil:
					t.Errorf("pool %s: %v", pool.Path(), err)
				case !serves && pool.Name() != "/named" && (err == nil || !strings.Contains(err.Error(), words)):
					t.Errorf("pool %s: %v, want words %q", pool.Path(), err, words)
				}
			}
		})
	}
}

// An administrator makes the path possible: the agent starts again with it. A class of which no
// path is possible has words.
func TestPathThatIsPossibleAgain(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(s.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.write("file")
	a := s.start()
	if a.Returned() {
		t.Error("it is possible, and is a file")
	}
	if paths, err := a.pathsOf("any"); err == nil || !strings.Contains(err.Error(), file+": config.json names this path, which can be no pool: invalid request: it is not a directory") {
		t.Errorf("new volumes go to %q, %v", paths, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, hangs := range []bool{true, false} {
		if a.hung[file] = hangs; a.Returned() == hangs {
			t.Errorf("the file is gone, the path hangs: %t, and it is possible: %t", hangs, !hangs)
		}
	}
	if again := s.start(); len(again.layout.leftOut()) > 0 {
		t.Errorf("left out: %v", again.layout.leftOut())
	}
}

// The agent goes on while its disk is away, and could not start: a changed configuration waits.
func TestChangeWhilePVDirIsAway(t *testing.T) {
	s := newStage(t)
	s.write(s.pvDir)
	a := s.start()
	if err := os.RemoveAll(filepath.Dir(s.pvDir)); err != nil {
		t.Fatal(err)
	}
	if err := a.Check([]string{s.pvDir, filepath.Join(s.dir, "second")}); err == nil || !strings.Contains(err.Error(), "PV_DIR (--pv-dir)") {
		t.Errorf("%v", err)
	}
}

// The names of pools inside a pool are no volumes there, also while they are left out.
func TestLeftOutPathIsNoVolume(t *testing.T) {
	s := newStage(t)
	if err := os.WriteFile(filepath.Join(s.pvDir, "csi"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.write("base/pool/csi")
	if a := s.start(); !slices.Contains(a.layout.dirs[0].inner, "csi") || len(a.layout.leftOut()) != 1 {
		t.Errorf("pools %+v", a.layout.dirs)
	}
}

func localPathPV(path, hostname string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{contract.AnnProvisionedBy: contract.LocalPathProvisioner}}}
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname}}},
	}}}}
	return pv
}

// A path that the configuration lacks is held if it has, or may have, volumes. One that never was a
// pool and that no PV names may be corrected.
func TestHeldPaths(t *testing.T) {
	pv := localPathPV
	for name, row := range map[string]struct {
		path   string                   // that of the configuration
		volume bool                     // there is a volume
		pv     *corev1.PersistentVolume // the path is below the stage's directory
		before bool                     // the pool is not opened yet
		after  func(path string) error  // once it is open
		want   string
	}{
		"no volumes":          {path: "second"},
		"volumes":             {path: "second", volume: true, want: "has volumes"},
		"a PV without volume": {path: "second", pv: pv("second/pvc-1_ns_data", "node-01"), want: "PV pvc-1 names"},
		"was open":            {path: "second", after: os.RemoveAll, want: "was open, is not ready, and may have volumes"},
		"not opened yet":      {path: "second", before: true, want: "is not opened yet"},
		"mistyped":            {path: "missing/sdd"},
		"away, and has a PV":  {path: "missing/sdd", pv: pv("missing/sdd/pvc-1_ns_data", "node-01"), want: "PV pvc-1 names"},
		"PV of another node":  {path: "missing/sdd", pv: pv("missing/sdd/pvc-1_ns_data", "node-02")},
		"PV of another path":  {path: "missing/sdd", pv: pv("missing/sde/pvc-1_ns_data", "node-01")},
		"left out, has no PV": {path: "file"},
		"left out, has a PV":  {path: "file", pv: pv("file/pvc-1_ns_data", "node-01"), want: "PV pvc-1 names"},
		"PV_DIR":              {path: "base/pool", volume: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if err := os.WriteFile(filepath.Join(s.dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.write(row.path)
			var pvs []*corev1.PersistentVolume
			if row.pv != nil {
				row.pv.Spec.HostPath.Path = filepath.Join(s.dir, row.pv.Spec.HostPath.Path)
				pvs = append(pvs, row.pv)
			}
			a, path := s.start(pvs...), filepath.Join(s.dir, row.path)
			if err := a.info.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !row.before {
				a.pools.Open()
			}
			if row.volume {
				if _, err := a.poolAt(path).Create(volume.Spec{Name: "pvc-1", Bytes: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if row.after != nil {
				if err := row.after(path); err != nil {
					t.Fatal(err)
				}
				a.poolAt(path).Ready()
			}
			if why := a.Held(t.Context(), path); (why == "") != (row.want == "") || !strings.HasPrefix(why, row.want) {
				t.Errorf("%q, want %q", why, row.want)
			}
		})
	}
}

// Agents start with a configuration that lost a path with volumes, however often: it stays a pool
// of the dialect, and no class has it for new volumes. Once its volumes are deleted it is left out.
func TestLostPath(t *testing.T) {
	s := newStage(t)
	second, third := filepath.Join(s.dir, "second"), filepath.Join(s.dir, "third")
	var pvs []*corev1.PersistentVolume
	next := func(paths ...string) *localPools {
		s.write(paths...)
		a := s.start(pvs...)
		if err := a.info.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		for pool, err := range a.pools.Open() {
			t.Errorf("%s: %v", pool.Name(), err)
		}
		return a
	}
	ends := func(a *localPools) { // killed: it does nothing more
		a.Close()
	}
	note := func(a *localPools, want bool) {
		t.Helper()
		if again, _ := a.Note(t.Context(), a.localPath.file.Paths().All()); again != want {
			t.Errorf("the agent starts again: %v", again)
		}
	}
	a := next("second", "third")
	if _, err := a.poolAt(second).Create(volume.Spec{Name: "pvc-1", Bytes: 1}); err != nil {
		t.Fatal(err)
	}
	note(a, false)
	ends(a)
	for range 2 {
		a = next("third")
		if a.poolAt(second) == nil || !slices.Equal(a.localPath.file.Former(), []string{second}) {
			t.Fatalf("pools %+v, former paths %q", a.layout.dirs, a.localPath.file.Former())
		}
		if paths, err := a.pathsOf("any"); err != nil || !slices.Equal(paths, []string{third}) {
			t.Errorf("new volumes are in %q, %v", paths, err)
		}
		if why := a.Held(t.Context(), second); !strings.HasPrefix(why, "has volumes") {
			t.Errorf("it is held for %q", why)
		}
		note(a, false)
		ends(a)
	}
	// The agent is killed between the deletion of the volume and that of its PV.
	pvs = append(pvs, localPathPV(filepath.Join(second, "pvc-1_ns_data"), "node-01"))
	a = next("third")
	if err := a.poolAt(second).Delete("pvc-1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		note(a, false)
		if why := a.Held(t.Context(), second); !strings.HasPrefix(why, "PV pvc-1 names") {
			t.Errorf("it is held for %q", why)
		}
		ends(a)
		a = next("third")
	}
	ends(a)
	pvs = nil
	a = next("third")
	note(a, false)
	if why := a.Held(t.Context(), second); why != "" {
		t.Errorf("it is held for %q", why)
	}
	ends(a)
	if a = next("third"); a.poolAt(second) != nil || len(a.localPath.file.Former()) > 0 {
		t.Errorf("pools %+v", a.layout.dirs)
	}
	// The pool at PV_DIR was not there at the start, and has a note.
	if err := a.poolAt(s.pvDir).SetPaths([]string{second}); err != nil {
		t.Fatal(err)
	}
	note(a, true)
	ends(a)
	a = next("third")
	note(a, false)
	ends(a)
	if a = next("third"); a.poolAt(second) != nil {
		t.Errorf("a path without volumes stays: %+v", a.layout.dirs)
	}
	// A note that cannot be understood is written anew.
	if err := os.WriteFile(filepath.Join(s.pvDir, ".hostpath-provisioner", "paths.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.poolAt(third).Create(volume.Spec{Name: "pvc-2", Bytes: 1}); err != nil {
		t.Fatal(err)
	}
	note(a, false)
	if noted, err := a.poolAt(s.pvDir).Paths(); err != nil || !slices.Equal(noted, []string{third}) {
		t.Errorf("noted %q, %v", noted, err)
	}
}

// A former path that is not open keeps its note while a PV names it, and loses it if none does.
func TestLostPathIsAway(t *testing.T) {
	for name, named := range map[string]bool{"named by a PV": true, "named by none": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			away := filepath.Join(s.dir, "missing", "second")
			s.write("third")
			if err := os.MkdirAll(filepath.Join(s.pvDir, ".hostpath-provisioner"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.pvDir, ".hostpath-provisioner", "paths.json"), fmt.Appendf(nil, `{"paths":[%q]}`, away), 0o600); err != nil {
				t.Fatal(err)
			}
			var pvs []*corev1.PersistentVolume
			if named {
				pvs = append(pvs, localPathPV(filepath.Join(away, "pvc-1_ns_data"), "node-01"))
			}
			a := s.start(pvs...)
			if err := a.info.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.pools.Open()
			a.Note(t.Context(), a.localPath.file.Paths().All())
			if noted, err := a.poolAt(s.pvDir).Paths(); err != nil || slices.Equal(noted, []string{away}) != named {
				t.Errorf("noted %q, %v", noted, err)
			}
			if held := a.Held(t.Context(), away) != ""; held != named {
				t.Errorf("held: %v", held)
			}
		})
	}
}
