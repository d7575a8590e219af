package cluster

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

const serviceRange = "10.96.0.0/16"

// serviceIP is the first address of serviceRange. Pods reach the API server at it, as
// KUBERNETES_SERVICE_HOST.
const serviceIP = "10.96.0.1"

func (s settings) url() string { return "https://" + net.JoinHostPort(s.Address, strconv.Itoa(s.Port)) }

func (s settings) etcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.EtcdPort) }

// args are a component's flags.
func (s settings) args(component string) []string {
	switch component {
	case "etcd":
		return s.etcdArgs()
	case "kube-apiserver":
		return s.apiServerArgs()
	case "kube-controller-manager":
		return s.controllerManagerArgs()
	case "kube-scheduler":
		return []string{"--config=" + filepath.Join(s.Dir, "kube-scheduler.yaml"), "--secure-port=0"}
	}
	return nil
}

func (s settings) etcdArgs() []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", s.PeerPort)
	args := []string{
		"--data-dir=" + filepath.Join(s.Dir, "etcd"),
		"--listen-client-urls=" + s.etcdURL(),
		"--advertise-client-urls=" + s.etcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--log-level=warn",
	}
	if !s.Durable {
		args = append(args, "--unsafe-no-fsync") // the data need not survive a power cut
	}
	return args
}

func (s settings) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + s.etcdURL(),
		"--bind-address=" + s.Address,
		"--secure-port=" + strconv.Itoa(s.Port),
		"--tls-cert-file=" + servingCertificate(s.Dir),
		"--tls-private-key-file=" + servingKey(s.Dir),
		"--service-cluster-ip-range=" + serviceRange,
		"--token-auth-file=" + tokenFile(s.Dir),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + signingKey(s.Dir),
		"--service-account-signing-key-file=" + signingKey(s.Dir),
		"--kubelet-preferred-address-types=InternalIP", // the nodes' names cannot be resolved
		// The kubernetes service gets no endpoints: there is no route to them, and a loopback
		// address is refused.
		"--endpoint-reconciler-type=none",
		// Webhooks are reached at the addresses of their pods: there is no service proxy.
		"--enable-aggregator-routing=true",
	}
	if net.ParseIP(s.Address).IsLoopback() {
		// Used only in certificates and the like. Without it a machine without a default route is
		// refused.
		args = append(args, "--advertise-address="+serviceIP)
	}
	return args
}

func (s settings) controllerManagerArgs() []string {
	controllers := "*"
	if !s.Kubelets {
		controllers = "*,-node-lifecycle-controller"
	}
	return []string{
		"--kubeconfig=" + kubeconfigPath(s.Dir, "kube-controller-manager"),
		"--secure-port=0",
		"--leader-elect=false",
		"--controllers=" + controllers,
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + signingKey(s.Dir),
		"--root-ca-file=" + servingCertificate(s.Dir),
		"--kube-api-qps=1000", // the default throttles binding to a few volumes per second
		"--kube-api-burst=2000",
		"--pvclaimbinder-sync-period=5s", // a claim without a PV is tried again as often; the default is 15 s
	}
}

func (s settings) schedulerConfig() string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
podMaxBackoffSeconds: 2 # the default is 10: tests wait for pods whose claims were given back
clientConnection:
  kubeconfig: %q
  qps: 1000
  burst: 2000
`, kubeconfigPath(s.Dir, "kube-scheduler"))
}
