package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// Whose permissions the agents have: the second account is that of agents with a CSI driver.
const (
	Namespace  = "hostpath-provisioner"
	Account    = "hostpath-provisioner-admin"
	CSIAccount = "hostpath-provisioner-admin-csi"
)

// Env is what the tests of one package share: a directory, a control plane with the manifests applied, and the agent.
type Env struct {
	// Dir keeps pools, disks and logs.
	Dir    string
	Plane  *cluster.ControlPlane
	Client kubernetes.Interface
	// Kubeconfig has the permissions of the agents' service account, CSIKubeconfig those of agents with a CSI driver.
	Kubeconfig, CSIKubeconfig string
	// Agent is the program, built with the race detector.
	Agent string

	faulty  func() (string, error)
	flags   []string // of the API server
	counter atomic.Int64
}

// Start builds the agent and starts a control plane with manifests/legacy and manifests/csi applied. The caller ends it with Stop.
func Start(ctx context.Context, log io.Writer) (*Env, error) {
	dir, err := os.MkdirTemp("", "hpp-suite-")
	if err != nil {
		return nil, err
	}
	e := &Env{Dir: dir}
	e.faulty = sync.OnceValues(func() (string, error) { return e.build("agent-faults", "-tags=faults") })
	if e.Agent, err = e.build("agent"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := e.StartPlane(ctx, log); err != nil {
		return nil, errors.Join(err, e.Stop(true))
	}
	return e, nil
}

// StartPlane starts the control plane and applies the manifests.
func (e *Env) StartPlane(ctx context.Context, log io.Writer) error {
	var err error
	e.Plane, err = cluster.StartControlPlane(ctx, cluster.Options{
		Dir: filepath.Join(e.Dir, "control-plane"), Version: os.Getenv("K8S_VERSION"), Log: log,
		ExtraArgs: map[string][]string{"kube-apiserver": e.flags},
	})
	if err != nil {
		return err
	}
	if e.Client, err = e.Plane.Client(); err != nil {
		return err
	}
	for _, name := range []string{"legacy", "csi"} {
		if err := e.Apply(name); err != nil {
			return err
		}
	}
	root, err := root()
	if err != nil {
		return err
	}
	// The rest of what agents that migrate may do.
	if err := e.kubectl("apply", "-f", filepath.Join(root, "manifests", "examples", "migrate", "rbac.yaml")); err != nil {
		return err
	}
	// Nobody runs its pods here; the agents are processes.
	if err := e.kubectl("-n", Namespace, "delete", "daemonset", "--all"); err != nil {
		return err
	}
	if e.Kubeconfig, err = e.Plane.ServiceAccountKubeconfig(ctx, Namespace, Account); err != nil {
		return err
	}
	e.CSIKubeconfig, err = e.Plane.ServiceAccountKubeconfig(ctx, Namespace, CSIAccount)
	return err
}

// Apply applies a directory of manifests, or a file.
func (e *Env) Apply(name string) error {
	root, err := root()
	if err != nil {
		return err
	}
	how := "-k"
	if filepath.Ext(name) == ".yaml" {
		how = "-f"
	}
	return e.kubectl("apply", how, filepath.Join(root, "manifests", name))
}

// Faulty is the agent built with the tag faults: it can be told to kill itself.
func (e *Env) Faulty() (string, error) { return e.faulty() }

// Another returns an Env with the same programs, for a control plane of its own, whose API server has these flags besides.
func (e *Env) Another(dir string, flags ...string) *Env {
	return &Env{Dir: dir, Agent: e.Agent, faulty: e.faulty, flags: flags}
}

// Stop ends the control plane. The directory goes too, but for the logs where keep is set.
func (e *Env) Stop(keep bool) error {
	if e.Plane != nil {
		if err := e.Plane.Stop(); err != nil {
			return err
		}
	}
	if !keep {
		return os.RemoveAll(e.Dir)
	}
	fmt.Fprintf(os.Stderr, "the logs are kept in %s\n", e.Dir)
	for _, dir := range []string{"pools", "disks", "control-plane/etcd", "agent", "agent-faults"} {
		if err := os.RemoveAll(filepath.Join(e.Dir, dir)); err != nil {
			return err
		}
	}
	return nil
}

// build compiles the agent with the race detector.
func (e *Env) build(name string, flags ...string) (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	out := filepath.Join(e.Dir, name)
	args := append([]string{"build", "-race", "-buildvcs=false", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, "./cmd/hostpath-provisioner")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, output)
	}
	return out, nil
}

func (e *Env) kubectl(args ...string) error {
	args = append([]string{"--kubeconfig", e.Plane.Kubeconfig()}, args...)
	if output, err := exec.Command(e.Plane.Binaries().Path("kubectl"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w\n%s", args, err, output)
	}
	return nil
}

// root is the directory of the agent's module.
func root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "manifests", "legacy")); err == nil {
			return dir, nil
		}
	}
	return "", errors.Join(err, errors.New("no directory above this one holds manifests/legacy"))
}
