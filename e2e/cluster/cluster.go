// Package cluster runs a real Kubernetes on one Linux machine: control planes for tests on the
// loopback interface, and whole clusters whose nodes each have their own mount namespace, kubelet
// and containerd.
//
// Everything is built from Go modules and Debian packages; no container engine and no image
// registry is needed.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// MaxNodes is the maximum number of nodes of a cluster. The API server reads their credentials when
// it starts.
const MaxNodes = 3

// ErrNotUp is returned by Open when the state directory holds no running cluster.
var ErrNotUp = errors.New("no cluster is up")

// UpOptions are the options of Up. The zero value is a cluster of one node in the default
// directories.
type UpOptions struct {
	// StateDir is the directory of all files of the cluster. Empty means DefaultStateDir.
	StateDir string
	// Version is the Kubernetes version, such as v1.34.4. Empty means DefaultVersion.
	Version string
	// Nodes is the number of nodes, 1 to MaxNodes. Zero means one.
	Nodes int
	// Hostnames overrides the kubernetes.io/hostname label by node name; without an entry it is the
	// node's name.
	Hostnames map[string]string
	// ExtraArgs are further flags by component, such as "kube-apiserver": {"--v=4"}.
	ExtraArgs map[string][]string
	// Log receives a line for every step. Nil discards them.
	Log io.Writer
}

func (o *UpOptions) complete() error {
	if o.StateDir == "" {
		o.StateDir = DefaultStateDir()
	}
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Nodes < 1 || o.Nodes > MaxNodes {
		return fmt.Errorf("%d nodes: a cluster has 1 to %d", o.Nodes, MaxNodes)
	}
	for name := range o.Hostnames {
		if !slices.Contains(nodeNames(o.Nodes), name) {
			return fmt.Errorf("hostname label for %q: there is no such node; there are %v", name, nodeNames(o.Nodes))
		}
	}
	return nil
}

// Cluster is a running cluster with real nodes. It does not end with the process that started it;
// Down ends it.
type Cluster struct {
	dir   string
	state *state
	plane *ControlPlane
	nodes []*Node
}

// ControlPlane returns the cluster's control plane.
func (c *Cluster) ControlPlane() *ControlPlane { return c.plane }

// Nodes returns the nodes, sorted by name.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Node returns the node of that name.
func (c *Cluster) Node(name string) (*Node, error) {
	for _, n := range c.nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("node %q: there is no such node; there are %v", name, nodeNames(len(c.nodes)))
}

// Load imports an image archive (docker-archive or OCI layout, as a tar file) on every node.
func (c *Cluster) Load(ctx context.Context, tar string) error {
	tar, err := filepath.Abs(tar)
	if err != nil {
		return err
	}
	if _, err := os.Stat(tar); err != nil {
		return fmt.Errorf("load image: %w", err)
	}
	return c.eachNode(func(n *Node) error { return n.load(ctx, tar) })
}

// eachNode calls f for all nodes in parallel and returns all errors.
func (c *Cluster) eachNode(f func(*Node) error) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Open returns the cluster that another process started in dir; an empty dir means DefaultStateDir.
// It returns ErrNotUp if there is none, or none that is complete.
func Open(dir string) (*Cluster, error) {
	if dir == "" {
		dir = DefaultStateDir()
	}
	s, err := readState(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("state directory %s: %w; start one with 'cluster up'", dir, ErrNotUp)
	case err != nil:
		return nil, err
	case !s.Ready || s.Boot != bootID():
		return nil, fmt.Errorf("state directory %s: %w, only remains of one; 'cluster up' or 'cluster down' clears them", dir,
			ErrNotUp)
	}
	plane, err := OpenControlPlane(filepath.Join(dir, "control-plane"))
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, state: s, plane: plane}
	c.addNodes()
	return c, nil
}

func (c *Cluster) addNodes() {
	for i, ns := range c.state.Nodes {
		c.nodes = append(c.nodes, newNode(i, ns, c.dir, c.plane))
	}
}

// ended lists the processes of the cluster that have ended.
func (c *Cluster) ended() []string {
	var names []string
	for _, s := range c.Status() {
		if s.PID == 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// runs reports whether at least one process of the cluster is running. None is after a restart of
// the container that they ran in, which is no restart of the machine.
func (c *Cluster) runs() bool {
	return slices.ContainsFunc(c.Status(), func(s ProcessStatus) bool { return s.PID != 0 })
}

// ProcessStatus is the status of one process of a cluster. PID is zero if the process has ended.
type ProcessStatus struct {
	Name string
	PID  int
	Log  string
}

// Status returns the status of every process of the cluster.
func (c *Cluster) Status() []ProcessStatus {
	all := c.plane.processes()
	for _, n := range c.nodes {
		all = append(all, n.processes()...)
	}
	var list []ProcessStatus
	for _, p := range all {
		pid, _ := p.PID()
		list = append(list, ProcessStatus{Name: p.Title, PID: pid, Log: p.Log()})
	}
	return list
}
