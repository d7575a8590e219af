package suite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const defaultNode = "DEFAULT_PATH_FOR_NON_LISTED_NODES"

type pathMap []map[string]any

// on adds the entry of a node.
func (m pathMap) on(node string, paths ...string) pathMap {
	return append(m, map[string]any{"node": node, "paths": append([]string{}, paths...)})
}

// Of several paths the one with most available space gets a new volume, and a class may name
// another.
func TestLocalPathChoosesThePath(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	large := s.Path("disk", "large")
	s.Disk("ext4", 256).Mount(large)
	s.Disk("xfs", 300).Mount(node.Pool) // less is available than on the other: the log is larger
	s.Write(node.Pool, "of-others", make([]byte, 200<<20))
	a := s.Agent(node, localPathOptions(s, node.Pool, large))
	wants := func(class, pool string) {
		t.Helper()
		claim := s.Create(harness.Claim{Class: class, Selected: node.Name})
		pv := s.Bound(claim)
		if err := isLocalPathPV(a, pv, filepath.Join(pool, localPathDirectory(claim)), false); err != nil {
			t.Error(err)
		}
		s.Delete(claim)
		s.Gone(pv.Name)
	}
	wants(localPathClass(s, "any", nil), large)
	wants(localPathClass(s, "named", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"nodePath": node.Pool} }), node.Pool)
	claim := s.Create(harness.Claim{Class: localPathClass(s, "unknown", func(c *storagev1.StorageClass) {
		c.Parameters = map[string]string{"nodePath": "/elsewhere"}
	}), Selected: node.Name})
	s.AwaitWarning(a, claim.UID, harness.ReasonFailed, "/elsewhere", "nodePath")
}

// Each class has the paths that storageClassConfigs gives it; what is not offered is refused with
// words.
func TestLocalPathClassesHaveTheirPaths(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	slow := s.Path("pools", "slow")
	o := localPathOptions(s)
	fast, shared, other := localPathClass(s, "fast", nil), localPathClass(s, "shared", nil), localPathClass(s, "other", nil)
	hdd, none := localPathClass(s, "hdd", nil), localPathClass(s, "none", nil)
	writeConfig(s, configOf(o), map[string]any{"storageClassConfigs": map[string]any{
		fast: map[string]any{"nodePathMap": pathMap{}.on(defaultNode, "/elsewhere").on(node.Name, node.Pool)},
		hdd:  map[string]any{"nodePathMap": pathMap{}.on(defaultNode, slow)},
		none: map[string]any{"nodePathMap": pathMap{}.on(defaultNode, slow).on(node.Name)},

		shared: map[string]any{"sharedFileSystemPath": "/nfs"},
	}})
	a := s.Agent(node, o)
	for class, pool := range map[string]string{fast: node.Pool, hdd: slow} {
		claim := s.Create(harness.Claim{Class: class, Selected: node.Name})
		if err := isLocalPathPV(a, s.Bound(claim), filepath.Join(pool, localPathDirectory(claim)), false); err != nil {
			t.Errorf("class %s: %v", class, err)
		}
	}
	for class, words := range map[string]string{
		shared: `sharedFileSystemPath "/nfs".*directories that nodes share are not offered`,
		other:  "none for class",
		none:   "gives node " + node.Name + " no path",
	} {
		claim := s.Create(harness.Claim{Class: class, Selected: node.Name})
		s.Eventually("refused", func() error { return s.WarnedAgain(claim.UID, harness.ReasonFailed, words) })
	}
}

// Four patterns name directories, and no other template does.
func TestLocalPathPatterns(t *testing.T) {
	t.Parallel()
	s, a := newLocalPath(t)
	class := func(suffix, pattern string) string {
		return localPathClass(s, suffix, func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"pathPattern": pattern} })
	}
	claim := s.Create(harness.Claim{Name: "data", Class: class("good", "{{ .PVC.Namespace }}-{{ .PVC.Name }}-{{ .PVName }}"), Selected: a.Node.Name})
	pv, path := s.Bound(claim), filepath.Join(a.Pool, s.Namespace+"-data-"+harness.PVName(claim))
	if err := isLocalPathPV(a, pv, path, false); err != nil {
		t.Error(err)
	}
	a.Stop()
	a.Restart()
	a.AwaitReady()
	s.Delete(claim)
	s.Gone(pv.Name)
	for suffix, pattern := range map[string]string{"traversal": "../{{ .PVName }}", "user": "{{ .PVC.Annotations.path }}", "deep": "{{ .PVC.Namespace }}/{{ .PVC.Name }}"} {
		claim := s.Create(harness.Claim{Class: class(suffix, pattern), Selected: a.Node.Name})
		s.AwaitWarning(a, claim.UID, harness.ReasonFailed, "pathPattern", `\{\{.PVName\}\}`)
	}
}

// configOf returns the file of the configuration.
func configOf(o harness.Options) string {
	_, file, _ := strings.Cut(o.Env[1], "=")
	return file
}

// A wrong configuration is an error at start that names the key.
func TestLocalPathRefusesTheConfiguration(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	o := localPathOptions(s)
	for words, config := range map[string]any{
		`sharedFileSystemPath is "/nfs"`: map[string]any{"sharedFileSystemPath": "/nfs"},
		`path "data" is not absolute`:    map[string]any{"nodePathMap": pathMap{}.on(node.Name, "data")},
	} {
		writeConfig(s, configOf(o), config)
		a := s.Start(node, o)
		s.Eventually("ended", func() error {
			if a.Alive() {
				return errors.New("the agent runs")
			}
			return nil
		})
		if log := a.Log(); a.Ended() != "exit status 2" || !strings.Contains(log, words) {
			t.Errorf("%s: %s; want exit code 2 and words %q", a.Ended(), log, words)
		}
	}
}

// When the ConfigMap changes, the agent starts again with the new paths, unless the text is wrong
// or lacks a path that has volumes.
func TestLocalPathFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	second, third := s.Path("pools", "second"), s.Path("pools", "third")
	o := localPathOptions(s, node.Pool, second)
	a := s.Agent(node, o)
	class := localPathClass(s, "second", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"nodePath": second} })
	claim := s.Create(harness.Claim{Class: class, Selected: node.Name})
	s.Bound(claim)

	refused := func(config any, words string) {
		t.Helper()
		writeConfig(s, configOf(o), config)
		s.Eventually("refused", func() error { return nodeSays(s, node, "ConfigurationRefused", words) })
		if !a.Alive() {
			t.Fatal("the agent ended")
		}
	}
	refused(map[string]any{"nodePathMap": pathMap{}.on(defaultNode, "data")}, `path "data" is not absolute`)
	refused(map[string]any{"nodePathMap": pathMap{}.on(defaultNode, node.Pool)}, second+", which has volumes")

	writeConfig(s, configOf(o), map[string]any{"nodePathMap": pathMap{}.on(defaultNode, second, third)})
	awaitEnd(s, a)
	if err := nodeSays(s, node, "ConfigurationChanged", third); err != nil {
		t.Error(err)
	}
	a.Restart() // as the kubelet does
	a.AwaitReady()
	class = localPathClass(s, "third", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"nodePath": third} })
	claim = s.Create(harness.Claim{Class: class, Selected: node.Name})
	if err := isLocalPathPV(a, s.Bound(claim), filepath.Join(third, localPathDirectory(claim)), false); err != nil {
		t.Error(err)
	}
}

// A path that can be no pool: the agent of one node, which has a configuration, goes on with it;
// that of the other, which starts, leaves the path out and serves the rest. A PV there is kept. A
// path that was mistyped can be corrected.
func TestLocalPathOfNoPool(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	one, other := s.Node("01"), s.Node("02")
	file := s.Path("pools", "file")
	s.Write(filepath.Dir(file), "file", nil)
	before := localPathOptions(s, one.Pool)
	a := s.Agent(one, before)
	writeConfig(s, configOf(before), map[string]any{"nodePathMap": pathMap{}.on(defaultNode, one.Pool, file)})
	s.Eventually("refused", func() error { return nodeSays(s, one, "ConfigurationRefused", file+": config.json names this path") })

	o := before
	o.Env = []string{o.Env[0], "HPP_LOCAL_PATH_CONFIG=" + s.Path("config", "other.json")}
	writeConfig(s, configOf(o), map[string]any{"nodePathMap": pathMap{}.on(defaultNode, other.Pool, file)})
	b := s.Start(other, o)
	b.AwaitUnready(file + ".*it is not a directory")
	s.Eventually("left out", func() error { return nodeSays(s, other, "PoolNotReady", file) })
	class := localPathClass(s, "class", nil)
	for _, agent := range []*harness.Agent{a, b} {
		s.Bound(s.Create(harness.Claim{Class: class, Selected: agent.Node.Name}))
	}
	a.AwaitReady()
	// A PV of before, whose volume is in the path that is left out, and whose claim is deleted: it
	// stays, and so does the path.
	claim := s.Create(harness.Claim{Name: "old", Class: class, Selected: "nowhere"})
	kept := theirPV(b, claim, filepath.Join(file, localPathDirectory(claim)))
	if _, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("bound", func() error { return s.IsBound(claim) })
	s.Delete(claim)
	without := map[string]any{"nodePathMap": pathMap{}.on(defaultNode, other.Pool)}
	writeConfig(s, configOf(o), without)
	s.Eventually("held", func() error { return nodeSays(s, other, "ConfigurationRefused", file+", which PV "+kept.Name+" names") })
	if pv := s.PV(kept.Name); pv.DeletionTimestamp != nil || !b.Alive() {
		t.Errorf("PV %s is deleted, or the agent has ended", pv.Name)
	}
	if err := s.Client.CoreV1().PersistentVolumes().Delete(s.Context(), kept.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitEnd(s, b)
	b.Restart()
	b.AwaitReady()

	// A path whose parent is missing was never a pool: it can be corrected.
	writeConfig(s, configOf(before), map[string]any{"nodePathMap": pathMap{}.on(defaultNode, one.Pool, file+"-missing/sdd")})
	awaitEnd(s, a)
	a.Restart()
	a.AwaitUnready("missing")
	writeConfig(s, configOf(before), map[string]any{"nodePathMap": pathMap{}.on(defaultNode, one.Pool)})
	awaitEnd(s, a)
	a.Restart()
	a.AwaitReady()
}

// awaitEnd waits until the agent has ended for a new configuration.
func awaitEnd(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	s.Eventually("ended", func() error {
		if a.Alive() {
			return errors.New("the agent runs")
		}
		return nil
	})
	if a.Ended() != "exit status 0" {
		s.Errorf("it ended with %s", a.Ended())
	}
}

// nodeSays returns nil if the Node has an event of the reason with the words.
func nodeSays(s *harness.Scene, node harness.Node, reason, words string) error {
	all := s.Events(types.UID(node.Name))
	for _, e := range all {
		if e.Reason == reason && strings.Contains(e.Message, words) {
			return nil
		}
	}
	return fmt.Errorf("no event %s with %q: %v", reason, words, all)
}
