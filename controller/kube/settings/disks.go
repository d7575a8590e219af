package settings

// DisksAddress is the default of --metrics-addr of the agent of raw disks.
const DisksAddress = ":8080"

// Disks returns the settings of the agent of raw disks. Names, variables and defaults are those of
// cybozu's local-pv-provisioner, so that its manifests carry over.
func Disks() []Section {
	all := []Setting{
		{Flag: "node-name", Kind: text, Help: "name of the Node that this process runs on; required"},
		{Flag: "namespace-name", Kind: text, Help: "namespace of the ConfigMaps; required"},
		{Flag: "default-pv-spec-configmap", Kind: text,
			Help: "ConfigMap of a Node without the annotation; without it such a Node offers nothing"},
		{Flag: "polling-interval", Kind: period, Default: "5m0s",
			Help: "longest time between two scans of the devices; new devices and changes of ConfigMaps are noticed at once"},
		{Flag: "metrics-addr", Kind: text, Default: DisksAddress,
			Help: "address of /healthz, /readyz, /status, /metrics and /devices"},
		{Flag: "kubeconfig", Kind: text, Help: "kubeconfig file; without it the service account of the pod is used"},
		{Flag: "kube-api-qps", Kind: rate, Default: "20",
			Help: "requests per second to the API server; five times as many at once"},
		{Flag: "v", Kind: level, Default: "0", Help: "number for the log level verbosity"},
	}
	// Flags of the older program that have no meaning here.
	for _, name := range []string{"development", "zap-devel", "zap-encoder", "zap-log-level", "zap-stacktrace-level", "zap-time-encoding"} {
		all = append(all, Setting{Flag: name, Kind: text, Help: "accepted and ignored", Ignored: true})
	}
	for i := range all {
		all[i].Env = variable("LP_", all[i].Flag)
	}
	return []Section{{Settings: all}}
}
