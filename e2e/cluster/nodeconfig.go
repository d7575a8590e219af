package cluster

import (
	"fmt"
	"os"
)

// nodePath is a directory that each node has for itself: host is its name in the node's directory,
// inside its path in the node's mount namespace.
type nodePath struct{ host, inside string }

const volumesPath = "/var/hpvolumes"

var nodePaths = []nodePath{
	{"hpvolumes", volumesPath},
	{"kubernetes", "/var/kubernetes"}, // PV_DIR of manifests/single-node
	{"kubelet", "/var/lib/kubelet"},
	{"containerd", "/var/lib/containerd"},
	{"containerd-run", "/run/containerd"},
	{"cni", "/var/lib/cni"},
	{"cni-config", "/etc/cni/net.d"},
	{"netns", "/run/netns"},
	{"pods-log", "/var/log/pods"},
	{"containers-log", "/var/log/containers"},
}

const containerdSocket = "/run/containerd/containerd.sock"

// containerdConfig uses version 2 of the format, which containerd 1.x and 2.x both read.
func containerdConfig(snapshotter, cniPlugins string) string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = %q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  # Without CAP_SYS_RESOURCE no process may lower an OOM score, and every pod would fail to start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = "/etc/cni/net.d"
`, containerdSocket, PauseImage, snapshotter, cniPlugins)
}

// cniConfig routes pods through a bridge of the host. They reach the host, the API server and each
// other only: there is no masquerading, so no firewall rule is needed.
func cniConfig(index int) string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "hpp-e2e",
  "plugins": [{
    "type": "bridge",
    "bridge": %q,
    "isGateway": true,
    "ipam": {
      "type": "host-local",
      "ranges": [[{"subnet": %q}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
`, podLink(index), podSubnet(index))
}

// kubeletConfig is for a node that shares a machine with other nodes and other work: it reserves
// nothing, evicts no pod, and allows anyone on the machine to execute commands in pods and read
// logs.
func kubeletConfig(n *Node, minor int) string {
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
healthzBindAddress: %[1]s
authentication:
  anonymous: {enabled: true}
  webhook: {enabled: false}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%[2]s
volumePluginDir: /var/lib/kubelet/volumeplugins
cgroupDriver: cgroupfs
cgroupRoot: %[3]s # two kubelets in one group would delete each other's pods
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
resolvConf: ""
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {nodefs.available: 0%%} # which is no threshold; without an entry the defaults hold
volumeStatsAggPeriod: 10s
kubeAPIQPS: 200
kubeAPIBurst: 400
`, n.IP, containerdSocket, nodeCgroup(n.Name))
	if minor >= 31 {
		// Version 1 is refused by default from 1.35 on; older kubelets do not know the field.
		text += "failCgroupV1: false\n"
	}
	return text
}

// snapshotter is overlayfs if the state directory allows it: an overlay cannot be on another
// overlay.
func snapshotter(dir string) string {
	if filesystemMagic(dir) == overlayMagic {
		return "native"
	}
	return "overlayfs"
}

// cniPluginDirs are the directories in which distributions and others install the plugins.
var cniPluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// findCNIPlugins returns the directory of the plugins, or "".
func findCNIPlugins() string {
	for _, dir := range cniPluginDirs {
		if _, err := os.Stat(dir + "/host-local"); err == nil {
			return dir
		}
	}
	return ""
}
