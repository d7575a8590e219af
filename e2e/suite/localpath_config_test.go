package suite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const defaultNode = "DEFAULT_PATH_FOR_NON_LISTED_NODES"

type pathMap []map[string]any

// on adds the entry of a node.
func (m pathMap) on(node string, paths ...string) pathMap {
	return append(m, map[string]any{"node": node, "paths": append([]string{}, paths...)})
}

// Of several paths the one with most available space gets a new volume, and a class may name another.
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
	s.AwaitWarning(claim.UID, harness.ReasonFailed, "/elsewhere", "nodePath")
}

// Each class has the paths that storageClassConfigs gives it; what is not offered is refused with words.
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
		s.AwaitWarning(claim.UID, harness.ReasonFailed, "pathPattern", `\{\{.PVName\}\}`)
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

// When the ConfigMap changes, the agent starts again with the new paths, unless the text is wrong or lacks a path that has
// volumes.
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
	s.Eventually("ended", func() error {
		if a.Alive() {
			return errors.New("the agent runs")
		}
		return nil
	})
	if a.Ended() != "exit status 0" {
		t.Errorf("it ended with %s", a.Ended())
	}
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
