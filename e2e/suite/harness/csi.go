package harness

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// Controller returns a client of the agent's CSI controller service, as a sidecar has one.
func (a *Agent) Controller() csi.ControllerClient {
	s := a.scene
	s.Helper()
	conn, err := grpc.NewClient("unix://"+a.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.must("connect to "+a.Socket, err)
	s.Cleanup(func() { _ = conn.Close() })
	return csi.NewControllerClient(conn)
}

// Sidecar starts the provisioner sidecar with the flags of manifests/csi-sidecars. Its capacity
// objects have no owner, because there is no pod. stop ends it.
func (a *Agent) Sidecar() (stop func()) {
	s := a.scene
	s.Helper()
	program, err := cluster.BuildProvisioner(s.Context(), os.Stderr)
	s.must("build the sidecar", err)
	log, err := os.Create(s.Path("logs", "sidecar.log"))
	s.must("open log", err)
	defer log.Close()
	cmd := exec.Command(program, "--kubeconfig="+s.CSIKubeconfig, "--csi-address="+a.Socket,
		"--feature-gates=Topology=true",
		"--node-deployment", "--strict-topology", "--immediate-topology=false", "--enable-capacity",
		"--capacity-ownerref-level=-1", "--extra-create-metadata", "--default-fstype=xfs",
		// Otherwise it would serve claims of other tests.
		"--node-deployment-immediate-binding=false")
	cmd.Env = []string{"NODE_NAME=" + a.Node.Name, "NAMESPACE=" + Namespace}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.must("start the sidecar", cmd.Start())
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	s.Cleanup(stop)
	return stop
}
