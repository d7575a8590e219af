package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A node that came up without its disk: the pod waits, and writes nothing to the disk below.
func TestPodWithoutItsDirectory(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	claim := s.Create(harness.Claim{Node: other.Name})
	volume := s.Bound(claim).Name
	path, aside := hostPath(other, volume), filepath.Join(other.Dir(), "aside-"+volume)
	must(s, "move away", os.Rename(path, aside))
	back := func() error { return os.Rename(aside, path) }
	s.Cleanup(func() { _ = back() }) // where the test has ended before

	p := pod{claim: claim.Name, script: "echo here >/data/file"}.create(s)
	s.Eventually("mount refused", func() error {
		return said(s, "involvedObject.uid", string(p.UID), "FailedMount", "hostPath type check failed", p.CreationTimestamp.Time)
	})
	if v := volumeOf(inspect(s, other), volume); v == nil || !v.Missing {
		t.Errorf("inspect says %+v, want a missing volume", v)
	}
	if err := harness.Missing(path); err != nil {
		t.Error(err)
	}
	must(s, "move back", back())
	awaitReady(s, p.Name)
	if got, err := os.ReadFile(hostPath(other, volume, "file")); string(got) != "here\n" {
		t.Errorf("on the node: %q, %v", got, err)
	}
}

// disk is a filesystem in a file, mounted over a directory of a node as an administrator would, or
// a boot in another order.
type disk struct {
	node      *cluster.Node
	image, at string
	mounted   bool
}

func newDisk(s *harness.Scene, n *cluster.Node, filesystem, at string, bytes int64) *disk {
	s.Helper()
	d := &disk{node: n, image: filepath.Join(s.TempDir(), "disk"), at: at}
	must(s, "make image", os.WriteFile(d.image, nil, 0o600))
	must(s, "make image", os.Truncate(d.image, bytes))
	command(s, "mkfs."+filesystem, "-q", d.image)
	s.Cleanup(func() {
		if err := d.unmount(); err != nil {
			s.Error(err)
		}
	})
	return d
}

func (d *disk) mount() error {
	_, err := onNode(d.node, "mount", "-o", "loop", d.image, d.at)
	d.mounted = err == nil
	return err
}

// unmount does nothing where the disk is not mounted: below it is the node's own mount.
func (d *disk) unmount() error {
	if !d.mounted {
		return nil
	}
	var err error
	for range 20 { // the agent may be looking at it
		if _, err = onNode(d.node, "umount", d.at); err == nil {
			d.mounted = false
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// Each row disturbs the agent of one node, so the rows run at once, and no other test meanwhile.
func TestAgentOfOneNode(t *testing.T) {
	csiTogether(t, "Group", map[string]csiRow{
		"mountedoverthepool": diskMountedOverThePool, "hostnamelabelthatdiffers": hostnameLabelThatDiffers,
	})
}

// A mount on the node reaches the agent that runs already. It is not the disk that the PVs are on,
// so nothing is made there and nothing is called deleted, until the right one is in sight again.
func diskMountedOverThePool(t *testing.T, s *harness.Scene) {
	kept, doomed := s.Create(harness.Claim{Node: one.Name}), s.Create(harness.Claim{Node: one.Name})
	volume := s.Bound(kept).Name
	s.Bound(doomed)
	p := pod{claim: kept.Name, script: "echo here >/data/file; " + ticking}.run(s)
	id := inspect(s, one).Pool.ID

	begin := time.Now()
	d := newDisk(s, one, "ext4", "/var/hpvolumes", 64<<20)
	must(s, "mount", d.mount())
	wantUnready(s, one, id, begin)
	waiting := s.Create(harness.Claim{Node: one.Name})
	s.Delete(doomed)
	s.Eventually("word to the claim", func() error {
		return s.Warned(waiting.UID, harness.ReasonFailed, "cannot serve this claim now")
	})
	again := func() error {
		p, err := podOf(s, one, agentSet)
		if err != nil {
			return err
		}
		log, err := kubectl("", "-n", p.Namespace, "logs", p.Name, "--since-time="+begin.UTC().Format(time.RFC3339))
		line := fmt.Sprintf(`"Retrying syncing volume".*"%s" failures=1\b`, harness.PVName(doomed))
		if err == nil && !regexp.MustCompile(line).MatchString(log) {
			err = fmt.Errorf("the log has no %s", line)
		}
		return err
	}
	s.Until("nothing happens", again, func() error {
		if s.IsGone(harness.PVName(doomed)) == nil {
			return errors.New("a PV was deleted whose directory is out of reach")
		}
		return s.IsPending(waiting)
	})
	if got, err := onNode(one, "ls", "-A", "/var/hpvolumes"); err != nil || strings.TrimSpace(got) != "lost+found" {
		t.Errorf("the agent left something on a disk that is not its own: %q, %v", got, err)
	}
	writes(s, one, volume)

	must(s, "unmount", d.unmount())
	awaitAgent(s, one)
	s.Eventually("good news", func() error {
		return said(s, "involvedObject.name", one.Name, harness.ReasonReady, "ready again", begin)
	})
	s.Bound(waiting)
	wantOnlyOn(s, harness.PVName(waiting), one)
	s.Gone(harness.PVName(doomed))
	if err := harness.Missing(hostPath(one, harness.PVName(doomed))); err != nil {
		t.Error(err)
	}
	writes(s, one, volume)
	end(s, p)
}

// wantUnready waits until all who ask are told that the pool is not the one that PVs name.
func wantUnready(s *harness.Scene, n *cluster.Node, id string, since time.Time) {
	s.Helper()
	s.Eventually("unready", func() error {
		text, err := readyz(s, n)
		if err == nil {
			return fmt.Errorf("readyz still says %q", text)
		}
		if !strings.Contains(text, "[-] pool /var/hpvolumes: ") || !strings.Contains(text, id) || !strings.Contains(text, "not mounted") {
			return fmt.Errorf("readyz says %q; want why the pool %s is not ready", text, id)
		}
		s.Logf("readyz: %s", text)
		return nil
	})
	s.Eventually("event on the node", func() error {
		return said(s, "involvedObject.name", n.Name, harness.ReasonNotReady, id, since)
	})
	// The kubelet asks no disk: the pod of this node keeps no other from an update.
	p, err := podOf(s, n, agentSet)
	must(s, "read the agent's pod", err)
	if state := p.Status.ContainerStatuses[0].State; !isReady(p) || state.Running == nil || state.Running.StartedAt.After(since) {
		s.Errorf("ready: %v, %+v; want a pod that is ready, and left running since %s", isReady(p), state, since)
	}
}

// ticking is a script that goes on writing after it has come to its end.
const ticking = "while sleep 0.2; do date >/data/clock; done & until [ -s /data/clock ]; do sleep 0.1; done"

// writes checks that the pod which writes into the volume goes on doing so.
func writes(s *harness.Scene, n *cluster.Node, volume string) {
	s.Helper()
	clock := hostPath(n, volume, "clock")
	must(s, "remove", os.Remove(clock))
	s.Eventually("the pod writes", func() error { return harness.Exists(clock) })
}
