package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options are the options of a control plane. Only Dir is required.
type Options struct {
	// Dir is for the database, the credentials and the logs. It must be empty or absent, and stays
	// after Stop.
	Dir string
	// Version is the Kubernetes version. Empty means DefaultVersion.
	Version string
	// Kubelets is set if real nodes will join. Without it no controller checks heartbeats, so that
	// nodes of CreateNode stay ready.
	Kubelets bool
	// Detach lets the processes outlive this one. Without it they end with it, however it ends.
	Detach bool
	// Address and Port are those of the API server. They default to 127.0.0.1 and a free port.
	Address string
	Port    int
	// Durable makes etcd flush every write to the disk, as in a cluster that keeps its data.
	Durable bool
	// ExtraArgs are further flags by component, such as "kube-controller-manager":
	// {"--pvclaimbinder-sync-period=1s"}.
	ExtraArgs map[string][]string
	// Log receives a line for every step. Nil discards them.
	Log io.Writer
}

// ControlPlane is etcd, an API server with RBAC, a controller manager and a scheduler, as processes
// of this machine. Several can run at once.
type ControlPlane struct {
	settings settings
	bins     Binaries
}

// settings is the file from which another process can open a control plane.
type settings struct {
	Dir       string              `json:"dir"`
	Version   string              `json:"version"`
	Kubelets  bool                `json:"kubelets"`
	Detach    bool                `json:"detach"`
	Address   string              `json:"address"`
	Port      int                 `json:"port"`
	Durable   bool                `json:"durable"`
	EtcdPort  int                 `json:"etcdPort"`
	PeerPort  int                 `json:"peerPort"`
	ExtraArgs map[string][]string `json:"extraArgs,omitempty"`
}

// StartControlPlane starts a control plane and returns when pods can be created in it, about three
// seconds later. The first call for a Kubernetes version compiles it. The caller calls Stop. An
// error has the end of the log of the component that failed; no process is left then.
func StartControlPlane(ctx context.Context, o Options) (*ControlPlane, error) {
	return startControlPlane(ctx, o, NewProgress(o.Log))
}

func startControlPlane(ctx context.Context, o Options, say *Progress) (*ControlPlane, error) {
	bins, err := build(ctx, o.Version, say)
	if err != nil {
		return nil, err
	}
	s, err := newSettings(o, bins.Version)
	if err != nil {
		return nil, fmt.Errorf("control plane in %s: %w", o.Dir, err)
	}
	c := &ControlPlane{settings: s, bins: bins}
	if err := c.startAll(ctx, say); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane %s: %w", s.Version, err), c.Stop())
	}
	return c, nil
}

func newSettings(o Options, version string) (settings, error) {
	s := settings{
		Version: version, Kubelets: o.Kubelets, Detach: o.Detach, Address: o.Address, Port: o.Port,
		Durable: o.Durable, ExtraArgs: o.ExtraArgs,
	}
	if o.Dir == "" {
		return s, errors.New("a directory must be named")
	}
	var err error
	if s.Dir, err = filepath.Abs(o.Dir); err != nil {
		return s, err
	}
	if entries, _ := os.ReadDir(s.Dir); len(entries) > 0 {
		return s, errors.New("the directory is not empty; name another or remove it")
	}
	if s.Address == "" {
		s.Address = "127.0.0.1"
	}
	ports, err := FreePorts(3, o.Detach)
	if err != nil {
		return s, err
	}
	if s.Port == 0 {
		s.Port = ports[0]
	}
	s.EtcdPort, s.PeerPort = ports[1], ports[2]
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return s, err
	}
	return s, writeJSON(filepath.Join(s.Dir, "control-plane.json"), s)
}

// OpenControlPlane opens the control plane of that directory, which another process started.
func OpenControlPlane(dir string) (*ControlPlane, error) {
	data, err := os.ReadFile(filepath.Join(dir, "control-plane.json"))
	if err != nil {
		return nil, err
	}
	c := new(ControlPlane)
	if err := json.Unmarshal(data, &c.settings); err != nil {
		return nil, fmt.Errorf("read the settings in %s: %w", dir, err)
	}
	cache, err := DefaultCacheDir()
	c.bins = Binaries{Version: c.settings.Version, cache: cache}
	return c, err
}

func (c *ControlPlane) startAll(ctx context.Context, say *Progress) error {
	s := c.settings
	tokens, err := writeCredentials(s.Dir)
	if err != nil {
		return err
	}
	if err := writeServingPair(s.Dir, s.Address); err != nil {
		return err
	}
	for _, u := range users() {
		err := writeKubeconfig(kubeconfigPath(s.Dir, u.file), s.url(), servingCertificate(s.Dir), tokens[u.file])
		if err != nil {
			return err
		}
	}
	if err := writeFile(s.Dir, "kube-scheduler.yaml", s.schedulerConfig()); err != nil {
		return err
	}
	if err := c.start("etcd"); err != nil {
		return err
	}
	if err := c.start("kube-apiserver"); err != nil {
		return err
	}
	if err := c.awaitAPIServer(ctx); err != nil {
		return err
	}
	say.Say("API server ready at %s", s.url())
	if err := errors.Join(c.start("kube-controller-manager"), c.start("kube-scheduler")); err != nil {
		return err
	}
	// The first service account shows that controllers work; without it no pod can be created.
	if err := c.awaitServiceAccount(ctx); err != nil {
		return err
	}
	say.Say("controllers ready")
	return nil
}

func (c *ControlPlane) start(component string) error {
	args := append(c.settings.args(component), c.settings.ExtraArgs[component]...)
	return c.process(component).Start(c.settings.Detach, nil, append([]string{c.bins.Path(component)}, args...)...)
}

func (c *ControlPlane) awaitAPIServer(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return c.process("kube-apiserver").Await(ctx, func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *ControlPlane) awaitServiceAccount(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return c.process("kube-controller-manager").Await(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *ControlPlane) process(component string) Process {
	return Process{Title: component, Name: component, Dir: c.settings.Dir}
}

// processes lists all components in the order in which they are ended: the clients first, the
// database last.
func (c *ControlPlane) processes() []Process {
	var list []Process
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"} {
		list = append(list, c.process(name))
	}
	return list
}

// Dir returns the directory of the control plane. Its directory logs has a log for each component.
func (c *ControlPlane) Dir() string { return c.settings.Dir }

// Version returns the Kubernetes version.
func (c *ControlPlane) Version() string { return c.settings.Version }

// Binaries returns the programs of the control plane, and kubectl.
func (c *ControlPlane) Binaries() Binaries { return c.bins }

// URL returns the address of the API server.
func (c *ControlPlane) URL() string { return c.settings.url() }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return kubeconfigPath(c.settings.Dir, "admin") }

// RESTConfig returns a new configuration of an administrator's client, without throttling.
func (c *ControlPlane) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Client returns a new administrator's client, without throttling.
func (c *ControlPlane) Client() (kubernetes.Interface, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	// cheaper than JSON for both sides: tests ask again and again
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return kubernetes.NewForConfig(config)
}

// Kubectl runs kubectl as the administrator, and returns what it printed. An error has its standard
// error.
func (c *ControlPlane) Kubectl(stdin string, args ...string) (string, error) {
	cmd := exec.Command(c.bins.Path("kubectl"), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

// StopAPIServer kills the API server, as a crash does, and nothing else. It does nothing if the API
// server has ended.
func (c *ControlPlane) StopAPIServer() error { return c.process("kube-apiserver").Stop(0) }

// StartAPIServer starts the API server again, on the same address and data, and returns when it is
// ready. If it runs, StartAPIServer only waits.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	if _, alive := c.process("kube-apiserver").PID(); !alive {
		if err := c.start("kube-apiserver"); err != nil {
			return err
		}
	}
	return c.awaitAPIServer(ctx)
}

// Stop kills all processes. It does nothing when it is called again. The directory stays, for its
// logs; the caller removes it.
func (c *ControlPlane) Stop() error {
	var errs []error
	for _, p := range c.processes() {
		errs = append(errs, p.Stop(0))
	}
	return errors.Join(errs...)
}

// ignoreExists returns nil for the error of an object that exists.
func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
