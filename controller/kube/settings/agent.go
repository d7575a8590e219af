package settings

import (
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

const (
	// Provision is the variable of --provision. An empty one is set, too: the agent serves no
	// claims.
	Provision = "PROVISION"
	// PodName is the variable with the name of the agent's pod, by the downward API. Without it the
	// objects of capacity have no owner, and each agent checks each claim that no node serves. It has
	// no flag.
	PodName = "POD_NAME"
	// MigrateToCSI is the variable of --migrate-to-csi.
	MigrateToCSI = "MIGRATE_TO_CSI"
	// KubeletDir is the variable of --kubelet-dir.
	KubeletDir = "HPP_KUBELET_DIR"
	// MetricsAuth is the variable of --metrics-auth, and MetricsToken its value for clients with a token.
	MetricsAuth, MetricsToken = "HPP_METRICS_AUTH", "token"

	// DefaultKubeletDir is the default of KubeletDir.
	DefaultKubeletDir = "/var/lib/kubelet"
	// AgentAddress is the default of --http-address.
	AgentAddress = ":9898"
	// DriverMetricsAddress is that of --metrics-address in driver-only mode. The kubevirt CSI
	// driver had no flag for its port.
	DriverMetricsAddress = ":8443"
	// DefaultPools are the pools of driver-only mode without --datadir.
	DefaultPools = `[{"name":"` + contract.DefaultPool + `","path":"/csi-data-dir"}]`
)

// Agent returns the settings of the node agent. version is that of the program.
func Agent(version string) []Section {
	return []Section{
		{"Node and pools", pools},
		{"Claims and volumes", volumes},
		{"CSI driver", driver(version)},
		{"Orphans", orphans},
		{"Migration to CSI PVs", migration},
		{"Kubernetes API", api},
		{"Health, metrics and logs", health},
	}
}

var pools = []Setting{
	{Flag: "node-name", Env: "NODE_NAME", Kind: text, Help: "name of the Node that this agent runs on; required"},
	{Flag: "pv-dir", Env: "PV_DIR", Kind: text,
		Help: "directory of the hostPath volumes; required to serve them. PVs contain this path, so it must be the same in the container and on the node"},
	{Flag: "pv-dir-mount", Env: "PV_DIR_MOUNT", Kind: text,
		Help: "--pv-dir or a directory above it that must be a mount point of the host before the agent uses it. The pod's hostPath volume must be the directory above it, with mountPropagation HostToContainer"},
	{Flag: "datadir", Env: "DATADIR", Kind: text,
		Help: "pools of the CSI driver as JSON, such as [{\"name\":\"local\",\"path\":\"/var/hpvolumes/csi\"}]. \"mount\" is what --pv-dir-mount is for --pv-dir; a pool with \"nodeSelector\": {\"label\":\"value\"} is only for nodes with these labels; a pool with \"shared\": true is not offered; unknown keys are refused. Without it the driver has the pool legacy in --pv-dir; in driver-only mode " + DefaultPools},
	{Flag: "reserve", Kind: size, Default: "0", ConfigMap: true,
		Help: "disk space kept free in each pool, such as 10Gi; claims cannot use it"},
	{Flag: "overcommit", Kind: factor, Default: "1", ConfigMap: true,
		Help: "how many times a pool's space may be allocated; never more than is free above --reserve"},
	{Flag: "enable-btrfs-quota", Kind: boolean, Default: "false", ConfigMap: true,
		Help: "turn on simple quotas on a btrfs that has none. This is permanent: kernels before Linux 6.7 can no longer write to it"},
	{Flag: "purge-rate", Kind: natural, Default: "5000", ConfigMap: true,
		Help: "files per second that the agent may remove from the trash; 0 is unlimited"},
	{Flag: "copy-rate", Kind: size, Default: "0", ConfigMap: true,
		Help: "bytes per second that the agent may write in each pool for copies of volumes that cannot share blocks with their source, such as 100Mi; 0 is unlimited"},
	{Flag: "trash-retention", Kind: Duration("24h"), Default: "0s", ConfigMap: true,
		Help: "how long a deleted volume is kept, so that kubectl hpp undelete can bring it back; 0 removes it at once. It goes earlier when claims need its space. Needs --provision"},
	{Flag: "trash-retention-max", Kind: Duration("168h"), Default: "168h0m0s", ConfigMap: true,
		Help: "the most that the class parameter trashRetention may ask for; agents refuse claims of a class that asks for more"},
}

var volumes = []Setting{
	{Flag: "provision", Env: Provision, Kind: claims,
		Help: "claims that the agent serves without a sidecar: hostpath, csi, or hostpath,csi. Without it hostpath; with --endpoint none, which is driver-only mode: the agent does not use the API server, and needs the standard sidecars"},
	{Flag: "compat", Env: "COMPAT", Kind: compat,
		Help: "also serve the classes and volumes of these provisioners, in --pv-dir: hostpath (for a cluster of one node), local-path (rancher.io/local-path), or both with a comma. Without --provision in place of kubevirt.io/hostpath-provisioner"},
	{Flag: "publish-capacity", Kind: boolean, Default: "true", ConfigMap: true,
		Help: "publish what is available for csi claims, as CSIStorageCapacity objects for the scheduler. The DaemonSet of the pod " + PodName + " owns them"},
	{Flag: "namespace", Env: "POD_NAMESPACE", Kind: text,
		Help: "namespace of these objects; required with --provision=csi"},
	{Flag: "local-path-config", Kind: text,
		Help: "config.json of the ConfigMap local-path-config, for --compat=local-path: more directories besides --pv-dir, and which of them serve a class. The agent starts again when they change"},
	{Flag: "local-path-namespaces", Kind: namespaces, Default: defaultNamespaces,
		Help: "namespaces, with commas between, in which a Deployment local-path-provisioner is the local-path provisioner: with --compat=local-path new claims wait while it runs. A Deployment of that name elsewhere is only an event"},
	{Flag: "use-naming-prefix", Env: "USE_NAMING_PREFIX", Kind: boolean, Default: "false",
		Help: "name directories <claim>-pvc-<uid> instead of pvc-<uid>"},
	{Flag: "reclaim-policy", Env: "PV_RECLAIM_POLICY", Kind: policy, ConfigMap: true,
		Help: "Delete or Retain, for all PVs that this agent creates, whatever their class says; not in driver-only mode"},
	{Flag: "directory-mode", Kind: mode, Default: "0777", ConfigMap: true,
		Help: "octal mode of new volumes. Without access for others, pods must run as root or own the directory"},
	{Flag: "selinux-label", Kind: text, Default: pooldir.LabelAuto, ConfigMap: true,
		Help: "SELinux label of new volumes; auto is " + pooldir.DefaultLabel + " if the filesystem carries labels; an empty one sets none"},
	{Flag: "capacity", Kind: either("request", "filesystem"), Default: "request", ConfigMap: true,
		Help: "capacity that new PVs show: request, or filesystem for the whole disk's size, as older provisioners show it. The agent allocates the request either way"},
}

// driver returns the settings of the CSI driver, which has the arguments of kubevirt's.
func driver(version string) []Setting {
	return []Setting{
		{Flag: "endpoint", Kind: text, Help: "socket of the CSI driver, such as unix:///csi/csi.sock"},
		{Flag: "drivername", Kind: text, Default: contract.CSIProvisioner,
			Help: "name of the CSI driver, as classes and the CSIDriver object spell it"},
		{Flag: "inline-volumes", Kind: inline, Default: "any", ConfigMap: true,
			Help: "which new ephemeral inline volumes pods may have, whose pool and size no class or quota limits: any, none, or pools with commas between and the largest size of each, such as scratch=1Gi,fast=any. Those that are published stay"},
		{Flag: "nodeid", Kind: text, Help: "node ID of the CSI driver: the Node's name; --node-name without it"},
		{Flag: "version", Kind: text, Default: version,
			Help: "version that the CSI driver reports; --version alone prints the agent's"},
		{Flag: "kubelet-dir", Kind: text, Default: DefaultKubeletDir,
			Help: "the kubelet's directory; volumes are mounted only below it, and the driver registers itself in its plugins_registry"},
		{Flag: "kubelet-registration-path", Kind: text,
			Help: "path of the socket as the kubelet sees it. With it the driver registers itself with the kubelet; without it the registrar sidecar does"},
	}
}

var orphans = []Setting{
	{Flag: "orphans", Kind: either("report", "delete"), Default: "report", ConfigMap: true,
		Help: "what happens to volumes whose PV is gone: report (metric, event, inspect), or delete those whose PV had policy Delete, whose claim is gone and which nothing uses"},
	{Flag: "orphan-grace", Kind: Duration("24h"), Default: "24h0m0s", ConfigMap: true,
		Help: "how long such a volume stays after its PV and claim were first found gone; agents of the node must also have run for that long since"},
}

var migration = []Setting{
	{Flag: "migrate-to-csi", Env: MigrateToCSI, Kind: migrate, Default: string(MigrateOff), ConfigMap: true,
		Help: "replace hostPath PVs of this node by CSI PVs of the same directories: off, plan (show what would be done), run, back (make them hostPath PVs again), or annotated (only PVs that are annotated with run or back); needs --provision=hostpath,csi"},
	{Flag: "migrate-from", Env: "MIGRATE_FROM", Kind: others, ConfigMap: true,
		Help: "also migrate PVs of these provisioners: hostpath, rancher.io/local-path, or both with a comma. The agent then reads all PVs of the cluster every few minutes"},
	{Flag: "migrate-used", Env: "MIGRATE_USED", Kind: boolean, Default: "false", ConfigMap: true,
		Help: "also migrate volumes that pods use; without it they wait until the pods have gone"},
}

var api = []Setting{
	{Flag: "kubeconfig", Kind: text, Help: "kubeconfig file; without it the agent uses its pod's service account"},
	{Flag: "kube-api-qps", Kind: rate, Default: "200", ConfigMap: true,
		Help: "requests per second to the API server; five times as many at once"},
}

// Names and defaults of metrics are those of the kubevirt CSI driver.
var health = []Setting{
	{Flag: "http-address", Kind: text, Default: AgentAddress,
		Help: "address of /healthz, /readyz, /status and /metrics; an empty one turns them off. Off by default in driver-only mode"},
	{Flag: "metrics-address", Kind: text,
		Help: "address of /metrics over HTTPS; an empty one turns it off. In driver-only mode without --http-address it is " + DriverMetricsAddress},
	{Flag: "metrics-per-volume", Kind: boolean, Default: "false", ConfigMap: true,
		Help: "serve the use and the quota of each volume: two series per volume of the node"},
	{Flag: "metrics-auth", Kind: either("none", MetricsToken), Default: "none",
		Help: "none, or token: /metrics is served on --metrics-address only, to clients whose token may get that URL"},
	{Flag: "metrics-cert-file", Kind: text,
		Help: "certificate of --metrics-address, PEM, read again when it changes; self-signed without it"},
	{Flag: "metrics-key-file", Kind: text, Help: "key of --metrics-cert-file"},
	{Flag: "metrics-tls-version", Kind: tlsVersion, Default: "VersionTLS13",
		Help: "oldest accepted TLS version of --metrics-address, VersionTLS10 to VersionTLS13"},
	// Off by default: profiles show what the process has in memory.
	{Flag: "pprof-address", Kind: address,
		Help: "address of /debug/pprof/, for go tool pprof; without a host, such as :6060, on loopback only; an empty one turns it off. Profiles show what the process holds in memory"},
	{Flag: "v", Kind: level, Default: "0", Help: "number for the log level verbosity"},
}
