package disks

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Options are the flags. Names, variables and defaults are those of cybozu's
// local-pv-provisioner, so that its manifests carry over.
type Options struct {
	// Node is the name of the Node.
	Node string
	// Kubeconfig and QPS are how the API server is asked.
	Kubeconfig string
	QPS        float32
	// Address is that of /healthz, /readyz, /status, /metrics and /devices.
	Address string

	namespace, configMap string
	interval             time.Duration
}

// DefaultAddress is that of --metrics-addr.
const DefaultAddress = ":8080"

// ignored are flags of the older program that have no meaning here.
var ignored = []string{"development", "zap-devel", "zap-encoder", "zap-log-level", "zap-stacktrace-level", "zap-time-encoding"}

const helpText = `hostpath-provisioner disks offers the unused disks of one node as local PVs, and
wipes a disk between two tenants. It runs on every node, in a privileged
container. A ConfigMap selects the devices: the one that the Node's
annotation local-pv-provisioner.cybozu.io/pv-spec-configmap names, or else that
of --default-pv-spec-configmap. A disk that carries data is not touched.

Usage:
  hostpath-provisioner disks [flags]
  hostpath-provisioner disks inspect [-o json|yaml]    print the devices and what is done with each

Flags, with the environment variable of each in brackets. A flag takes
precedence; an empty variable counts as not set:
%s
Endpoints on --metrics-addr:
  /healthz   the process lives
  /readyz    it has read the devices and their PVs, or 503 and what stands in the way
  /status    the text of /readyz with 200 always; ?format=json for scripts
  /metrics   for Prometheus
  /devices   what inspect prints, as JSON

Exit code: 0 after SIGTERM or SIGINT, 2 if the command line or a setting is
wrong, 1 after any other error.
`

// Flags returns the flags, which set o.
func (o *Options) Flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("disks", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&o.Node, "node-name", "", "name of the Node that this process runs on; required")
	f.StringVar(&o.namespace, "namespace-name", "", "namespace of the ConfigMaps; required")
	f.StringVar(&o.configMap, "default-pv-spec-configmap", "", "ConfigMap of a Node without the annotation; without it such a Node offers nothing")
	f.DurationVar(&o.interval, "polling-interval", 5*time.Minute, "longest time between two scans of the devices; new devices and changes of ConfigMaps are noticed at once")
	f.StringVar(&o.Address, "metrics-addr", DefaultAddress, "address of /healthz, /readyz, /status, /metrics and /devices")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file; without it the service account of the pod is used")
	f.Float32Var(&o.QPS, "kube-api-qps", 20, "requests per second to the API server; five times as many at once")
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	f.AddGoFlag(logging.Lookup("v"))
	for _, name := range ignored {
		f.String(name, "", "accepted and ignored")
		f.Lookup(name).NoOptDefVal = "true"
		f.Lookup(name).Hidden = true
	}
	f.VisitAll(func(f *pflag.Flag) { f.Usage += " [" + Variable(f.Name) + "]" })
	return f
}

// Variable returns the environment variable that sets a flag.
func Variable(flag string) string {
	return "LP_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Parse reads the environment and the command line. It returns nil options if it only printed help
// to out. Every error is one of the command line or a setting.
func Parse(args []string, out io.Writer) (*Options, error) {
	o := &Options{}
	flags := o.Flags()
	flags.Usage = func() { fmt.Fprintf(out, helpText, flags.FlagUsagesWrapped(100)) }
	var wrong error
	flags.VisitAll(func(f *pflag.Flag) {
		if value := os.Getenv(Variable(f.Name)); value != "" && wrong == nil {
			if err := flags.Set(f.Name, value); err != nil {
				wrong = fmt.Errorf("environment variable %s: %w", Variable(f.Name), err)
			}
		}
	})
	if wrong != nil {
		return nil, wrong
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w; --help lists the flags", err)
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unknown command %q; the command is inspect, and --help lists the flags", flags.Arg(0))
	}
	return o, o.check()
}

func (o *Options) check() error {
	var missing []string
	if o.Node == "" {
		missing = append(missing, "the node's name: set LP_NODE_NAME (spec.nodeName by the downward API) or --node-name")
	}
	if o.namespace == "" {
		missing = append(missing, "the namespace of the ConfigMaps: set LP_NAMESPACE_NAME (metadata.namespace by the downward API) or --namespace-name")
	}
	switch {
	case len(missing) > 0:
		return fmt.Errorf("missing settings: %s", strings.Join(missing, "; "))
	case o.interval <= 0 || o.QPS <= 0:
		return errors.New("--polling-interval and --kube-api-qps must be above zero")
	}
	return nil
}
