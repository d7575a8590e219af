package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// hostile leaves what the agent must remove with no more than its capabilities.
const hostile = `umask 077
mkdir -p /data/closed/deeper && echo secret >/data/closed/deeper/file && chmod 0 /data/closed/deeper
mkdir /data/sticky && chmod 1777 /data/sticky && echo mine >/data/sticky/file
mkdir /data/locked && echo for ever >/data/locked/file
ln -s / /data/root`

// The agent's few capabilities are enough for files of another user, in directories that are closed
// to everybody, and for immutable ones.
func TestDeletedIsGone(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	claim := s.Create(harness.Claim{Node: one.Name})
	volume := s.Bound(claim).Name
	p := pod{claim: claim.Name, script: hostile, user: 1000}.run(s)
	lock(s, hostPath(one, volume, "locked", "file"), "i")
	lock(s, hostPath(one, volume, "locked"), "a")
	if v := volumeOf(inspect(s, one), volume); v == nil || v.State != "bound" || v.Bytes != 10<<20 {
		t.Errorf("inspect says %+v, want a bound volume of 10Mi", v)
	}
	end(s, p)

	begin := time.Now()
	s.Delete(claim)
	s.Eventually("out of sight", func() error { return harness.Missing(hostPath(one, volume)) })
	t.Logf("out of sight after %s", time.Since(begin).Round(time.Millisecond))
	s.Gone(volume)
	if v := volumeOf(inspect(s, one), volume); v != nil {
		t.Errorf("inspect still allocates %+v", v)
	}
	s.Eventually("trash purged", func() error { return notInTrash(s, one, volume) })
	if left := find(s, one.VolumesDir(), "for ever\n"); left != "" {
		t.Errorf("the file is still there: %s", left)
	}
}

// lock sets an attribute that keeps even root from removing the path, and makes sure that it does.
func lock(s *harness.Scene, path, attribute string) {
	s.Helper()
	command(s, "chattr", "+"+attribute, path)
	s.Cleanup(func() {
		if harness.Exists(path) == nil {
			command(s, "chattr", "-"+attribute, path)
		}
	})
	if err := os.Rename(path, path+"-moved"); err == nil {
		s.Fatalf("%s was moved: chattr +%s does nothing here", path, attribute)
	}
}

func notInTrash(s *harness.Scene, n *cluster.Node, volume string) error {
	for _, entry := range inspect(s, n).Trash {
		if entry.Name == volume || entry.Name == "" {
			return fmt.Errorf("the trash has %+v", entry)
		}
	}
	return nil
}

// find looks below dir for a file with that content.
func find(s *harness.Scene, dir, content string) (found string) {
	s.Helper()
	must(s, "walk", filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // other volumes come and go
		}
		if err == nil && e.Type().IsRegular() {
			if data, _ := os.ReadFile(path); string(data) == content {
				found = path
			}
		}
		return err
	}))
	return found
}
