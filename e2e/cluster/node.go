package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is one real node: a mount namespace with a containerd and a kubelet.
type Node struct {
	// Name is the name of the Node object.
	Name string
	// Hostname is the value of its kubernetes.io/hostname label.
	Hostname string
	// IP is its address, which the machine itself and all pods reach.
	IP string

	index   int
	dir     string
	plane   *ControlPlane
	kubelet Binaries // whose kubelet runs, if it is not the cluster's
}

func nodeNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("node-%02d", i+1))
	}
	return names
}

func newNode(index int, s nodeState, stateDir string, plane *ControlPlane) *Node {
	return &Node{
		Name: s.Name, Hostname: s.Hostname, IP: nodeIP(index),
		index: index, dir: filepath.Join(stateDir, "nodes", s.Name), plane: plane,
	}
}

// Dir returns the node's directory on the host, with its logs and all its files.
func (n *Node) Dir() string { return n.dir }

// VolumesDir returns the directory of the host that the node has at /var/hpvolumes. A mount in it
// on one side is not visible on the other.
func (n *Node) VolumesDir() string { return filepath.Join(n.dir, "hpvolumes") }

func (n *Node) process(name string) Process {
	return Process{Title: n.Name + " " + name, Name: name, Dir: n.dir}
}

// processes returns the processes in the order in which they are ended. The namespace ends with the
// last one.
func (n *Node) processes() []Process {
	return []Process{n.process("kubelet"), n.process("containerd"), n.process("namespace")}
}

// Command returns a command that runs in the node's mount namespace, as root. The caller runs it.
func (n *Node) Command(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	args, err := n.inside(argv...)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	return cmd, nil
}

// inside wraps a command so that it runs in the mount namespace. nsenter executes it, so the
// process ID stays.
func (n *Node) inside(argv ...string) ([]string, error) {
	pid, alive := n.process("namespace").PID()
	if !alive {
		return nil, fmt.Errorf("node %s is not up: the process that holds its mount namespace has ended", n.Name)
	}
	return append([]string{"nsenter", "--mount=/proc/" + strconv.Itoa(pid) + "/ns/mnt", "--"}, argv...), nil
}

// up starts everything except the kubelet: namespace, containerd, images.
func (n *Node) up(ctx context.Context, images []string) error {
	if err := n.writeConfig(); err != nil {
		return fmt.Errorf("configure %s: %w", n.Name, err)
	}
	if err := makeCgroup(runtimeCgroup(n.Name)); err != nil {
		return err
	}
	if err := n.startNamespace(ctx); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	for _, tar := range images {
		if err := n.load(ctx, tar); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) writeConfig() error {
	for _, p := range nodePaths {
		if err := os.MkdirAll(filepath.Join(n.dir, p.host), 0o755); err != nil {
			return err
		}
	}
	minor, err := minorVersion(cmp.Or(n.kubelet, n.plane.bins).Version)
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(n.dir, "containerd.toml", containerdConfig(snapshotter(n.dir), findCNIPlugins())),
		writeFile(n.dir, "kubelet.yaml", kubeletConfig(n, minor)),
		writeFile(filepath.Join(n.dir, "cni-config"), "10-bridge.conflist", cniConfig(n.index)),
	)
}

// startNamespace starts a process that only holds the node's mount namespace. Mounts in it do not
// propagate to the host. Inside, all mounts are shared, as containers with bidirectional mounts
// need it, and /proc/1 is the process itself: the storage tests of Kubernetes enter the namespace of
// process 1, which on a machine of its own is the node's.
func (n *Node) startNamespace(ctx context.Context) error {
	ready := filepath.Join(n.dir, "namespace-ready")
	_ = os.Remove(ready) // of an earlier start
	script := []string{"set -e", "mount --make-rprivate /"}
	for _, p := range nodePaths {
		script = append(script, fmt.Sprintf("mount --bind '%s' '%s'", filepath.Join(n.dir, p.host), p.inside))
	}
	script = append(script, "mount --bind /proc/$$ /proc/1", "mount --make-rshared /", fmt.Sprintf("touch '%s'", ready), "exec sleep infinity")
	p := n.process("namespace")
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := p.Start(true, attr, "sh", "-c", strings.Join(script, "\n")); err != nil {
		return err
	}
	return p.Await(ctx, func(context.Context) error {
		_, err := os.Stat(ready)
		return err
	})
}

func (n *Node) startContainerd(ctx context.Context) error {
	argv, err := n.inside("containerd", "--config", filepath.Join(n.dir, "containerd.toml"))
	if err != nil {
		return err
	}
	p := n.process("containerd")
	if err := p.Start(true, nil, argv...); err != nil {
		return err
	}
	if pid, alive := p.PID(); alive {
		if err := enterCgroup(runtimeCgroup(n.Name), pid); err != nil {
			return err
		}
	}
	return p.Await(ctx, func(ctx context.Context) error {
		return n.run(ctx, "ctr", "version")
	})
}

// load imports an image archive; the path is absolute.
func (n *Node) load(ctx context.Context, tar string) error {
	if err := n.run(ctx, "ctr", "-n", "k8s.io", "images", "import", tar); err != nil {
		return fmt.Errorf("load %s on %s: %w", tar, n.Name, err)
	}
	return nil
}

// run runs a command on the node. An error has its output.
func (n *Node) run(ctx context.Context, argv ...string) error {
	cmd, err := n.Command(ctx, argv...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// StopKubelet kills the kubelet; pods continue to run. It does nothing if the kubelet has ended.
func (n *Node) StopKubelet() error { return n.process("kubelet").Stop(0) }

// SetKubelet has StartKubelet start the kubelet of another Kubernetes version, or that of the cluster
// for the zero value. The caller stops the present one. Kubernetes permits no kubelet that is newer
// than its API server.
func (n *Node) SetKubelet(b Binaries) error {
	n.kubelet = b
	return n.writeConfig()
}

// StartKubelet starts the kubelet; AwaitReady waits until it has joined. It does nothing if the
// kubelet runs.
func (n *Node) StartKubelet() error {
	p := n.process("kubelet")
	if _, alive := p.PID(); alive {
		return nil
	}
	argv, err := n.inside(cmp.Or(n.kubelet, n.plane.bins).Path("kubelet"),
		"--config="+filepath.Join(n.dir, "kubelet.yaml"),
		"--kubeconfig="+kubeconfigPath(n.plane.Dir(), n.Name),
		"--hostname-override="+n.Name,
		"--node-ip="+n.IP,
		"--node-labels="+corev1.LabelHostname+"="+n.Hostname)
	if err != nil {
		return err
	}
	return p.Start(true, nil, append(argv, n.plane.settings.ExtraArgs["kubelet"]...)...)
}

// AwaitReady waits until the node is ready and accepts pods without tolerations.
func (n *Node) AwaitReady(ctx context.Context) error {
	client, err := n.plane.Client()
	if err != nil {
		return err
	}
	return n.process("kubelet").Await(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := takesPods(node); err != nil {
			return err
		}
		return n.kubeletHealth(ctx)
	})
}

// kubeletHealth asks the kubelet itself: after its restart the Node object still has its former
// status.
func (n *Node) kubeletHealth(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(n.IP, "10248")+"/healthz",
		nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("kubelet of %s: health check says %s", n.Name, response.Status)
	}
	return nil
}

// takesPods returns why an ordinary pod would not be placed on the node, or nil.
func takesPods(node *corev1.Node) error {
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			return fmt.Errorf("node %q has the taint %s", node.Name, t.Key)
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status != corev1.ConditionTrue {
			return fmt.Errorf("node %q is not ready: %s", node.Name, c.Message)
		}
		return nil
	}
	return fmt.Errorf("node %q has not said yet whether it is ready", node.Name)
}

// Stop ends all of the node at once, as if its plug were pulled: the kubelet, the containers, their
// runtime, and all that is mounted on the node. Its disks stay as they are. It does nothing if the
// node has ended.
func (n *Node) Stop() error {
	errs := []error{n.process("kubelet").Stop(0), killCgroup(nodeCgroup(n.Name))}
	for _, p := range n.processes() {
		errs = append(errs, p.Stop(0))
	}
	return errors.Join(errs...)
}

// Start boots a node that Stop ended, with an empty /run; AwaitReady waits until it has joined. It
// must not be called while the node runs.
func (n *Node) Start(ctx context.Context) error {
	for _, p := range nodePaths {
		if strings.HasPrefix(p.inside, "/run/") {
			if err := os.RemoveAll(filepath.Join(n.dir, p.host)); err != nil {
				return err
			}
		}
	}
	return errors.Join(n.up(ctx, nil), n.StartKubelet())
}
