package disks

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// Options are the flags.
type Options struct {
	// Node is the name of the Node.
	Node string
	// Kubeconfig and QPS configure the client of the API server.
	Kubeconfig string
	QPS        float32
	// Address serves /healthz, /readyz, /status, /metrics and /devices.
	Address string

	namespace, configMap string
	interval             time.Duration
}

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

// targets returns where the value of each flag goes.
func (o *Options) targets() map[string]any {
	return map[string]any{
		"node-name": &o.Node, "namespace-name": &o.namespace, "default-pv-spec-configmap": &o.configMap,
		"polling-interval": &o.interval,
		"metrics-addr":     &o.Address, "kubeconfig": &o.Kubeconfig, "kube-api-qps": &o.QPS, "v": new(klog.Level),
	}
}

// Parse reads the environment and the command line. It returns nil options if it only printed help
// to out. An error is always a wrong command line or setting.
func Parse(args []string, out io.Writer) (*Options, error) {
	o, table := &Options{}, settings.Disks()
	flags, err := settings.Parse(table, args, o.targets(), "the command is inspect",
		func() { fmt.Fprintf(out, helpText, table[0].Flags().FlagUsagesWrapped(100)) })
	if flags == nil {
		return nil, err
	}
	return o, o.check()
}

func (o *Options) check() error {
	var missing []string
	if o.Node == "" {
		missing = append(missing, "the node's name: set LP_NODE_NAME (spec.nodeName by the downward API) or --node-name")
	}
	if o.namespace == "" {
		missing = append(missing, "the namespace of the ConfigMaps: "+
			"set LP_NAMESPACE_NAME (metadata.namespace by the downward API) or --namespace-name")
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing settings: %s", strings.Join(missing, "; "))
	}
	return nil
}
