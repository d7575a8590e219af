package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Up starts a cluster and returns when all nodes are ready. If the same cluster is up, it only logs
// that. It removes what an earlier attempt, an earlier boot of the machine, or a cluster without a
// running process left. After an error everything stays, for its logs, until the next Up or Down.
// The caller must be root.
func Up(ctx context.Context, o UpOptions) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	say := NewProgress(o.Log)
	if err := checkMachine(o.StateDir); err != nil {
		return nil, err
	}
	bins, err := build(ctx, o.Version, say)
	if err != nil {
		return nil, err
	}
	unlock, err := lockState(o.StateDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	switch c, err := Open(o.StateDir); {
	case err == nil && c.runs():
		return c, c.same(o, say)
	case err != nil && !errors.Is(err, ErrNotUp):
		return nil, err
	}
	if _, err := readState(o.StateDir); err == nil {
		say.Say("clearing the remains of an earlier cluster")
		if err := takeDown(o.StateDir); err != nil {
			return nil, err
		}
	}
	c, err := create(o)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx, o, bins, say); err != nil {
		return nil, err
	}
	c.state.Ready = true
	return c, c.state.save(c.dir)
}

// same returns nil if the cluster that is up is complete and has the requested options.
func (c *Cluster) same(o UpOptions, say *Progress) error {
	if c.state.Version != o.Version || len(c.nodes) != o.Nodes {
		return fmt.Errorf("kubernetes %s with %d nodes is up, asked for %s with %d: run 'cluster down' first",
			c.state.Version, len(c.nodes), o.Version, o.Nodes)
	}
	if ended := c.ended(); len(ended) > 0 {
		return fmt.Errorf("the cluster is up, but %s has ended: see 'cluster status', or run 'cluster down' first",
			strings.Join(ended, ", "))
	}
	say.Say("already up: kubernetes %s, %d nodes", c.state.Version, len(c.nodes))
	return nil
}

// create records what is going to be created, so that it can be undone after a later error.
func create(o UpOptions) (*Cluster, error) {
	names := links(o.Nodes)
	if err := findLinks(names); err != nil {
		return nil, err
	}
	s := &state{Version: o.Version, Boot: bootID(), Links: names, Sysctls: readSysctls()}
	for _, name := range nodeNames(o.Nodes) {
		hostname := o.Hostnames[name]
		if hostname == "" {
			hostname = name
		}
		s.Nodes = append(s.Nodes, nodeState{Name: name, Hostname: hostname})
	}
	for _, p := range nodePaths {
		s.Dirs = append(s.Dirs, missingDirs(p.inside, s.Dirs)...)
	}
	if err := os.MkdirAll(o.StateDir, 0o755); err != nil {
		return nil, err
	}
	if err := s.save(o.StateDir); err != nil {
		return nil, err
	}
	for _, dir := range s.Dirs {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return &Cluster{dir: o.StateDir, state: s}, nil
}

// missingDirs lists dir and its parents if they do not exist and are not in known, parents first.
func missingDirs(dir string, known []string) []string {
	seen := map[string]bool{}
	for _, d := range known {
		seen[d] = true
	}
	var list []string
	for ; dir != "/" && !seen[dir]; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		list = append([]string{dir}, list...)
	}
	return list
}

func (c *Cluster) start(ctx context.Context, o UpOptions, bins Binaries, say *Progress) error {
	images, err := WriteNodeImages(c.dir, bins)
	if err != nil {
		return err
	}
	if err := makeHostLink(o.Nodes); err != nil {
		return err
	}
	c.plane, err = startControlPlane(ctx, Options{
		Dir: filepath.Join(c.dir, "control-plane"), Version: o.Version, Kubelets: true, Detach: true,
		Address: serviceIP, Port: 443, ExtraArgs: o.ExtraArgs,
	}, say)
	if err != nil {
		return err
	}
	c.addNodes()
	if err := c.eachNode(func(n *Node) error { return n.up(ctx, images) }); err != nil {
		return err
	}
	say.Say("containerd and images ready on %d nodes", len(c.nodes))
	return say.During("waiting for the nodes", func() error {
		return c.eachNode(func(n *Node) error {
			err := errors.Join(n.StartKubelet(), n.AwaitReady(ctx))
			if err == nil {
				say.Say("%s ready at %s, its /var/hpvolumes is %s", n.Name, n.IP, n.VolumesDir())
			}
			return err
		})
	})
}

// WriteNodeImages writes the archives of the images that every node needs, and returns their paths.
func WriteNodeImages(dir string, bins Binaries) ([]string, error) {
	pause, err := BinaryImage(PauseImage, bins.Path("pause"))
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	busybox, err := busyboxImage(program)
	if err != nil {
		return nil, err
	}
	files := []string{filepath.Join(dir, "pause.tar"), filepath.Join(dir, "busybox.tar")}
	return files, errors.Join(WriteImage(pause, files[0]), WriteImage(busybox, files[1]))
}

// checkMachine returns an error, one sentence, if nodes cannot run on this machine.
func checkMachine(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("nodes need root: run this as root, or use a control plane alone")
	}
	var missing []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox", "ip", "nsenter",
		"mount"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if findCNIPlugins() == "" {
		missing = append(missing, "the CNI plugins")
	}
	if len(missing) > 0 {
		return fmt.Errorf("nodes need %s: run 'e2e/packages.sh @cluster'", strings.Join(missing, ", "))
	}
	// The longest socket path below it, of a CSI driver under the kubelet's directory, must fit
	// into 107 bytes.
	if !filepath.IsAbs(dir) || len(dir) > 50 || strings.ContainsAny(dir, "' \n") {
		return fmt.Errorf("state directory %q: want an absolute path of at most 50 bytes without spaces or quotes; set "+
			"HPP_E2E_STATE", dir)
	}
	for parent := dir; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); err == nil {
			if filesystemMagic(parent) == tmpfsMagic {
				return fmt.Errorf("state directory %s: lies on a tmpfs; set HPP_E2E_STATE to a directory on a disk", dir)
			}
			return nil
		}
	}
}
