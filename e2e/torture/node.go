package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// diskSize is a little more than the minimum of XFS, in MiB.
const diskSize = 320

// foreign is the file that fills a disk.
const foreign = "foreign"

// pool is a pool of a node.
type pool struct{ name, path string }

// node has its own disk, a pool for hostPath volumes on it and in that one for CSI volumes, and one
// agent for both.
type node struct {
	harness.Node
	filesystem string
	disk       *harness.Disk
	pools      []pool
	agent      *harness.Agent
	armed      bool // the agent may kill itself at any time
}

func (c *campaign) newNode(suffix, filesystem string) *node {
	program, err := c.Faulty()
	if err != nil {
		c.Fatal(err)
	}
	n := &node{Node: c.Node(suffix), filesystem: filesystem}
	n.disk = c.Disk(filesystem, diskSize)
	var options []string
	// the kernel frees what was deleted, and then its quota, after a commit: every 30 s otherwise
	if filesystem == "btrfs" {
		options = []string{"-o", "commit=1"}
	}
	n.disk.Mount(n.Pool, options...)
	csi := filepath.Join(n.Pool, "csi")
	n.pools = []pool{{"hostpath", n.Pool}, {harness.LocalPool, csi}}
	flags := []string{"--enable-btrfs-quota"}
	if c.Migrate {
		c.KnowsDriver(n.Node)
		flags = append(flags, "--migrate-to-csi=annotated", "--migrate-used") // no kubelet runs the pods
	}
	n.agent = c.Start(n.Node, harness.Options{
		Program: program, CSI: "hostpath,csi", DataDir: harness.Datadir(harness.LocalPool, csi), Flags: flags,
	})
	return n
}

// torment causes one fault of the node after another, and leaves the node working.
func (c *campaign) torment(ctx context.Context, n *node, rng *rand.Rand) {
	rest := 6 * time.Second
	if c.Migrate {
		rest *= 3 // an agent begins to migrate when it has started
	}
	for pause(ctx, between(rng, 500*time.Millisecond, rest)) {
		switch c.buryAgent(n); rng.IntN(10) {
		case 0, 1, 2:
			c.killAgent(n, "killed")
			pause(ctx, between(rng, 0, 2*time.Second))
			n.agent.Restart()
		case 3, 4:
			c.killAgent(n, "killed, and again while it starts")
			n.agent.Restart()
			pause(ctx, between(rng, 0, 1500*time.Millisecond))
			c.killAgent(n, "killed while it starts")
			n.agent.Restart()
		case 5, 6, 7:
			c.killAtStep(ctx, n, 1+rng.IntN(90))
		case 8:
			c.killAtStep(ctx, n, 1+rng.IntN(12)) // while the pools are opened
		case 9:
			c.fillDisk(ctx, n, rng)
		}
	}
	if c.buryAgent(n); n.armed {
		c.killAgent(n, "killed")
		n.agent.Restart()
	}
}

// buryAgent starts an agent that has ended. It must have ended at the step that was configured.
func (c *campaign) buryAgent(n *node) {
	switch ended := n.agent.Ended(); {
	case ended == "":
		return
	case n.armed && ended == "signal: killed":
		c.kills.Add(1)
		c.fault("%s: agent killed itself", n.filesystem)
	default:
		c.Errorf("the agent of %s (%s) ended by itself: %s", n.Name, n.filesystem, ended)
	}
	n.armed = false
	n.agent.Restart()
}

func (c *campaign) killAgent(n *node, how string) {
	c.buryAgent(n)
	n.agent.Kill()
	n.armed = false
	c.kills.Add(1)
	c.fault("%s: agent %s", n.filesystem, how)
}

// killAtStep makes the agent kill itself before its k-th change to the disk after its start. If
// that does not happen soon, it may happen at any time.
func (c *campaign) killAtStep(ctx context.Context, n *node, k int) {
	c.killAgent(n, fmt.Sprintf("killed, to be killed before its change %d", k))
	n.agent.RestartWith(fmt.Sprintf("HPP_KILL_AT=%d", k))
	n.armed = true
	for end := time.Now().Add(8 * time.Second); n.agent.Alive() && time.Now().Before(end); {
		if !pause(ctx, 50*time.Millisecond) {
			return
		}
	}
	c.buryAgent(n)
}

// fillDisk fills the disk for a while, as another program could, and may kill the agent in that
// time.
func (c *campaign) fillDisk(ctx context.Context, n *node, rng *rand.Rand) {
	path := filepath.Join(n.Pool, foreign)
	f, err := os.Create(path)
	if err != nil {
		c.Logf("fill %s: %v", n.filesystem, err) // the disk is already full
		return
	}
	took, err := takeAll(f)
	c.fault("%s: disk filled with %d MiB (%v)", n.filesystem, took>>20, err)
	pause(ctx, between(rng, time.Second, 3*time.Second))
	if rng.IntN(2) == 0 {
		c.killAgent(n, "killed on a full disk")
		n.agent.Restart()
	}
	pause(ctx, between(rng, time.Second, 4*time.Second))
	f.Close()
	if err := os.Remove(path); err != nil {
		c.Errorf("empty the disk of %s: %v", n.filesystem, err)
	}
	c.fault("%s: disk emptied", n.filesystem)
}

// takeAll grows the file as far as the filesystem allows.
func takeAll(f *os.File) (took int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	for size := int64(st.Bavail) * st.Bsize; size >= 4096; {
		if err = syscall.Fallocate(int(f.Fd()), 0, took, size); err == nil {
			took += size
		} else {
			size /= 2
		}
	}
	return took, err
}

// killAPIServer kills the API server repeatedly, and leaves it running.
func (c *campaign) killAPIServer(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, between(rng, 10*time.Second, 30*time.Second)) {
		if err := c.Plane.StopAPIServer(); err != nil {
			c.Fatal(err)
		}
		c.kills.Add(1)
		c.fault("API server killed")
		pause(ctx, between(rng, 0, 5*time.Second))
		if err := c.Plane.StartAPIServer(c.Context()); err != nil {
			c.Fatal(err)
		}
		c.Logf("API server back")
	}
}
