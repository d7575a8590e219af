package machine

import (
	"bytes"
	"fmt"
)

// Addresses in the network of the virtual machine. The host has that of the service kubernetes, so
// that the control plane's certificate holds; its ports are those of the host's loopback interface.
const (
	network   = "10.96.0.0/24"
	hostIP    = "10.96.0.1"
	guestIP   = "10.96.0.15"
	podSubnet = "10.97.0.0/24"
)

// nodeName is a name for which the control plane has a kubelet's credentials.
const nodeName = "node-01"

// file is a file of the guest.
type file struct {
	path string
	mode uint32
	data []byte
}

func text(path, content string) file { return file{path, 0o644, []byte(content)} }

// guestFiles configure the node. kubeconfig is the kubelet's, for the host's loopback interface;
// port is the API server's.
func guestFiles(kubeconfig []byte, port int, sandbox string) []file {
	kubeconfig = bytes.ReplaceAll(kubeconfig, fmt.Appendf(nil, "https://127.0.0.1:%d", port),
		fmt.Appendf(nil, "https://%s:%d", hostIP, port))
	return []file{
		text("/etc/kubernetes/kubelet.kubeconfig", string(kubeconfig)),
		text("/etc/kubernetes/kubelet.yaml", kubeletConfig),
		text("/etc/containerd/config.toml", fmt.Sprintf(containerdConfig, sandbox)),
		text("/etc/cni/net.d/10-bridge.conflist", cniConfig),
		text("/etc/systemd/system/kubelet.service", kubeletUnit),
		text("/etc/systemd/system/kubernetes-service.service", fmt.Sprintf(serviceUnit, port)),
		text("/etc/fstab", fstab),
		text("/etc/systemd/system.conf.d/slow.conf", slow),
	}
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: systemd
resolvConf: ""
failSwapOn: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
runtimeRequestTimeout: 5m
evictionHard: {memory.available: 50Mi}
`

const kubeletUnit = `[Unit]
Description=kubelet
Requires=containerd.service kubernetes-service.service
After=containerd.service kubernetes-service.service network-online.target
Wants=network-online.target
[Service]
ExecStart=/usr/local/bin/kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.kubeconfig \
  --root-dir=/var/lib/k0s/kubelet --hostname-override=` + nodeName + ` --node-ip=` + guestIP + `
Restart=always
[Install]
WantedBy=multi-user.target
`

// serviceUnit stands in for the service proxy: it leads the service kubernetes to the API server's
// port.
const serviceUnit = `[Unit]
Description=route to the API server
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/iptables -t nat -A OUTPUT -d ` + hostIP + ` -p tcp --dport 443 -j DNAT --to ` + hostIP + `:%[1]d
ExecStart=/usr/sbin/iptables -t nat -A PREROUTING -d ` + hostIP + ` -p tcp --dport 443 -j DNAT --to ` + hostIP + `:%[1]d
[Install]
WantedBy=multi-user.target
`

const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  enable_selinux = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
`

const cniConfig = `{
  "cniVersion": "0.4.0",
  "name": "machine",
  "plugins": [{
    "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "` + podSubnet + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`

// slow has the times of a machine that may get little of the host's CPUs. No shutdown waits long
// for a container.
const slow = `[Manager]
DefaultTimeoutStartSec=10min
DefaultDeviceTimeoutSec=10min
DefaultTimeoutStopSec=20s
`

// fstab mounts a disk by its label. A disk that is not there does not keep the machine from
// booting.
const fstab = `/dev/vda / ext4 defaults 0 1
LABEL=xfs /var/hpvolumes/disk xfs prjquota,nofail,x-systemd.device-timeout=10min 0 0
LABEL=ext4 /var/ext4 ext4 prjquota,nofail,x-systemd.device-timeout=10min 0 0
LABEL=btrfs /var/btrfs btrfs nofail,x-systemd.device-timeout=10min 0 0
`
