package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// The agents' namespace and accounts. CSIAccount is that of agents with a CSI driver,
// DiskAccount that of the command disks. LocalPathAccount is of the tests: in manifests/local-path
// it is Account, which here has the permissions of manifests/legacy.
const (
	Namespace   = "hostpath-provisioner"
	Account     = "hostpath-provisioner-admin"
	CSIAccount  = "hostpath-provisioner-admin-csi"
	DiskAccount = "hostpath-provisioner-admin-disks"

	LocalPathAccount = "hostpath-provisioner-local-path"
)

// Settings are the settings of an Env. The zero value is that of tests.
type Settings struct {
	// Dir is an empty directory, or one to create; empty means a new temporary one.
	Dir string
	// Race builds Faulty with the race detector. By default only Racing has it: tests start agents
	// hundreds of times, and a start with the detector takes a CPU second.
	Race bool
	// DivideTimes divides the times after which agents and the operator try or check again; see
	// controller/kube/timing. If it is set, Env.Agent and Env.Manager are built with the tag
	// faults.
	DivideTimes int
	// Durable and ExtraArgs are options of the control plane; see cluster.Options.
	Durable   bool
	ExtraArgs map[string][]string
}

// Env is shared by the tests of a package: a directory, a control plane with the manifests applied,
// and the agent.
type Env struct {
	// Dir holds pools, disks and logs.
	Dir    string
	Plane  *cluster.ControlPlane
	Client kubernetes.Interface
	// Kubeconfig has the permissions of Account, CSIKubeconfig those of CSIAccount, DisksKubeconfig
	// those of DiskAccount, and LocalPathKubeconfig those of LocalPathAccount.
	Kubeconfig, CSIKubeconfig, DisksKubeconfig, LocalPathKubeconfig string
	// Agent is the program as it is released, unless Settings.DivideTimes is set.
	Agent string
	// Settings apply whenever a control plane starts.
	Settings Settings

	faulty  func() (string, error)
	racing  func() (string, error)
	manager func() (string, error)
	counter atomic.Int64
	homes   sync.Map // from the UID of an object to the namespace of its events, if known
}

// Start builds the agent and starts a control plane with the manifests applied. The caller calls
// Stop.
func Start(ctx context.Context, log io.Writer) (*Env, error) { return Settings{}.Start(ctx, log) }

// Start is as the function Start, with these settings.
func (s Settings) Start(ctx context.Context, log io.Writer) (*Env, error) {
	dir, err := s.Dir, os.MkdirAll(s.Dir, 0o700)
	if dir == "" {
		dir, err = os.MkdirTemp("", "hpp-suite-")
	}
	if err != nil {
		return nil, err
	}
	e := &Env{Dir: dir, Settings: s}
	e.faulty = sync.OnceValues(func() (string, error) { return e.build(agent, s.Race, "faults") })
	e.racing = sync.OnceValues(func() (string, error) { return e.build(agent, true) })
	program, tags := func() (string, error) { return e.build(agent, false) }, []string(nil)
	if s.DivideTimes > 1 {
		program, tags = e.faulty, []string{"faults"}
	}
	e.manager = sync.OnceValues(func() (string, error) {
		return e.build(operator, os.Getenv(raceVariable) != "",
			tags...)
	})
	var built error
	var beside sync.WaitGroup
	beside.Go(func() { e.Agent, built = program() })
	err = e.StartPlane(ctx, log)
	beside.Wait()
	if err := errors.Join(err, built); err != nil {
		return nil, errors.Join(err, e.Stop(true))
	}
	return e, nil
}

// StartPlane starts the control plane and applies the manifests.
func (e *Env) StartPlane(ctx context.Context, log io.Writer) error {
	var err error
	e.Plane, err = cluster.StartControlPlane(ctx, cluster.Options{
		Dir: filepath.Join(e.Dir, "control-plane"), Version: os.Getenv("K8S_VERSION"), Log: log,
		Durable: e.Settings.Durable, ExtraArgs: e.Settings.ExtraArgs,
	})
	if err != nil {
		return err
	}
	if e.Client, err = e.Plane.Client(); err != nil {
		return err
	}
	if err := e.applyAll(ctx); err != nil {
		return err
	}
	if e.Kubeconfig, err = e.Plane.ServiceAccountKubeconfig(ctx, Namespace, Account); err != nil {
		return err
	}
	if e.LocalPathKubeconfig, err = e.Plane.ServiceAccountKubeconfig(ctx, Namespace, LocalPathAccount); err != nil {
		return err
	}
	if e.DisksKubeconfig, err = e.Plane.ServiceAccountKubeconfig(ctx, Namespace, DiskAccount); err != nil {
		return err
	}
	e.CSIKubeconfig, err = e.Plane.ServiceAccountKubeconfig(ctx, Namespace, CSIAccount)
	return err
}

// applyAll applies the manifests of agents with one command: each is more than a second for the
// processor. No kubelet runs the pods of their DaemonSets; the agents are processes.
func (e *Env) applyAll(ctx context.Context) error {
	root, err := root()
	if err != nil {
		return err
	}
	var all []string
	for _, name := range []string{"legacy", "csi", "local-pv"} {
		text, err := e.Plane.Kubectl("", "kustomize", filepath.Join(root, "manifests", name))
		if err != nil {
			return err
		}
		all = append(all, text)
	}
	// The additional permissions of agents that migrate, and of those that stand in for the
	// local-path provisioner.
	for _, dir := range []string{"examples/migrate", "local-path/agent"} {
		text, err := os.ReadFile(filepath.Join(root, "manifests", dir, "rbac.yaml"))
		if err != nil {
			return err
		}
		all = append(all, string(text))
	}
	if _, err := e.Plane.Kubectl(strings.Join(all, "\n---\n"), "apply", "-f", "-"); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: LocalPathAccount}}
	_, err = e.Client.CoreV1().ServiceAccounts(Namespace).Create(ctx, account, metav1.CreateOptions{})
	subject := `[{"op":"replace","path":"/subjects/0/name","value":"` + LocalPathAccount + `"}]`
	_, bound := e.Client.RbacV1().ClusterRoleBindings().Patch(ctx, LocalPathAccount, types.JSONPatchType, []byte(subject),
		metav1.PatchOptions{})
	gone := e.Client.AppsV1().DaemonSets(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	return errors.Join(err, bound, gone)
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

// Faulty returns the agent built with the tag faults, which can kill itself at a step.
func (e *Env) Faulty() (string, error) { return e.faulty() }

// Racing returns the agent built with the race detector, for tests of many calls at once.
func (e *Env) Racing() (string, error) { return e.racing() }

// raceVariable has Manager built with the race detector.
const raceVariable = "HPP_E2E_RACE"

// Manager returns the operator as it is released unless Settings.DivideTimes is set, and with the
// race detector if HPP_E2E_RACE is.
func (e *Env) Manager() (string, error) { return e.manager() }

// Another returns an Env with the same programs, for another control plane whose API server has
// additional flags.
func (e *Env) Another(dir string, flags ...string) *Env {
	return &Env{Dir: dir, Agent: e.Agent, faulty: e.faulty, racing: e.racing, manager: e.manager, Settings: Settings{
		DivideTimes: e.Settings.DivideTimes, ExtraArgs: map[string][]string{"kube-apiserver": flags}}}
}

// Stop ends the control plane and removes the directory, with keep except its logs.
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
	for _, dir := range []string{"pools", "disks", "control-plane/etcd", "programs"} {
		if err := os.RemoveAll(filepath.Join(e.Dir, dir)); err != nil {
			return err
		}
	}
	return nil
}

// The commands of the main module.
const (
	agent    = "hostpath-provisioner"
	operator = "hostpath-operator"
)

// build compiles a command with build tags, either with the race detector or otherwise as it is
// released. The command is built in the tree, where the next build finds it and links it only if
// something changed. It returns a copy, which no other build replaces.
func (e *Env) build(command string, race bool, tags ...string) (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	name := strings.Join(append([]string{command}, tags...), "-")
	mode, cgo := []string{"-race"}, "CGO_ENABLED=1"
	if race {
		name += "-race"
	} else {
		// GO_BUILD of the Makefile
		mode, cgo, tags = []string{"-trimpath", "-ldflags=-s -w"}, "CGO_ENABLED=0", append(tags, "grpcnotrace")
	}
	kept, dir := filepath.Join(root, "_artifacts", "e2e", name), filepath.Join(e.Dir, "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	args := slices.Concat([]string{"go", "build", "-buildvcs=false", "-o", kept, "-tags=" + strings.Join(tags, ",")}, mode,
		[]string{"./cmd/" + command})
	// Another process copies it: this one starts programs meanwhile, which have its files open for
	// a moment. What is open for writing cannot be started.
	for _, argv := range [][]string{args, {"cp", kept, dir}} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), cgo, "GOWORK=off")
		if output, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %s: %w\n%s", command, argv, err, output)
		}
	}
	return filepath.Join(dir, name), nil
}

// Scaled returns the time in which agents do what the source has them do after d.
func (e *Env) Scaled(d time.Duration) time.Duration {
	return d / time.Duration(max(1, e.Settings.DivideTimes))
}

// times is the variable that divides the times of programs with the tag faults.
func (e *Env) times() string {
	return fmt.Sprintf("HPP_DIVIDE_TIMES=%d", max(1, e.Settings.DivideTimes))
}

// Shell runs a command line of a page, as an administrator with kubectl does.
func (s *Scene) Shell(line string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "sh", "-euc", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(s.Plane.Binaries().Path("kubectl"))+":"+os.Getenv("PATH"),
		"KUBECONFIG="+s.Plane.Kubeconfig())
	output, err := cmd.CombinedOutput()
	s.must(line+"\n"+string(output), err)
}

func (e *Env) kubectl(args ...string) error {
	args = append([]string{"--kubeconfig", e.Plane.Kubeconfig()}, args...)
	if output, err := exec.Command(e.Plane.Binaries().Path("kubectl"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w\n%s", args, err, output)
	}
	return nil
}

// root returns the directory of the agent's module.
func root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "manifests", "legacy")); err == nil {
			return dir, nil
		}
	}
	return "", errors.Join(err, errors.New("no directory above this one holds manifests/legacy"))
}
