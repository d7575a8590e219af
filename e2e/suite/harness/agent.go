package harness

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// stopWithin is the time in which an agent must end. Without other load it is a second. A kubelet
// kills it after that many, the least terminationGracePeriodSeconds of the manifests.
const stopWithin = 10 * time.Second

// quickExit is for programs with the race detector. Otherwise each sleeps a second before it ends,
// to report races of all of its threads.
const quickExit = "GORACE=atexit_sleep_ms=100"

// Options are the settings of one agent. The zero value is an agent of hostPath claims.
type Options struct {
	// Program replaces Env.Agent, or Env.Faulty; see Agent.RestartWith.
	Program string
	// Kubeconfig replaces the one with the agents' service account.
	Kubeconfig string
	// Pool replaces the node's.
	Pool string
	// Env are additional variables, NAME=value.
	Env []string
	// Flags are additional flags.
	Flags []string
	// CSI is the value of --provision of an agent with a CSI driver: csi, hostpath,csi, or none.
	// Such an agent has the permissions of manifests/csi.
	CSI string
	// DataDir are the pools of the driver, as JSON; see Datadir.
	DataDir string
	// Disks runs the command disks, with the permissions of manifests/local-pv.
	Disks bool
}

// Datadir returns the value of --datadir for one pool.
func Datadir(name, path string) string { return fmt.Sprintf(`[{"name":%q,"path":%q}]`, name, path) }

// Agent is the agent of one node as a process of this machine.
type Agent struct {
	Node Node
	// Pool is its PV_DIR.
	Pool string
	// Socket is that of its CSI driver, if it has one.
	Socket string

	scene   *Scene
	options Options
	address string
	log     string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
}

// agents counts the agents of this process, so that each gets its own loopback address.
var agents atomic.Int32

// Agent starts the agent of a node and waits until it is ready.
func (s *Scene) Agent(node Node, o Options) *Agent {
	s.Helper()
	a := s.Start(node, o)
	a.AwaitReady()
	return a
}

// Start starts the agent of a node and does not wait. At the end of the test the agent is stopped,
// its log is searched for data races, and if the test failed, the log is printed.
func (s *Scene) Start(node Node, o Options) *Agent {
	s.Helper()
	a := s.Later(node, o)
	a.Restart()
	return a
}

// Later returns an agent that Restart starts for the first time.
func (s *Scene) Later(node Node, o Options) *Agent {
	s.Helper()
	n := agents.Add(1)
	a := &Agent{
		Node: node, Pool: o.Pool, scene: s, options: o,
		address: s.loopback(n, 9898),
		log:     s.Path("logs", fmt.Sprintf("agent-%d.log", n)),
		Socket:  filepath.Join(s.Dir, fmt.Sprintf("csi-%d.sock", n)), // a path that is short enough for a socket
	}
	if a.Pool == "" {
		a.Pool = node.Pool
	}
	s.Cleanup(a.finish)
	return a
}

// loopback returns a port of this process's n-th loopback address.
func (s *Scene) loopback(n int32, port int) string {
	s.Helper()
	ip, err := cluster.Loopback(int(n))
	s.must("loopback address", err)
	return fmt.Sprintf("%s:%d", ip, port)
}

// Restart starts the agent again, with the same settings. It appends to the log.
func (a *Agent) Restart() {
	a.scene.Helper()
	a.RestartWith()
}

// RestartAs starts the agent again with other settings, except the pool, which is the node's.
func (a *Agent) RestartAs(o Options) {
	a.scene.Helper()
	a.options = o
	a.RestartWith()
}

// killAt is the variable with the step at which an agent with the tag faults kills itself. One as
// it is released ignores it.
const killAt = "HPP_KILL_AT="

// RestartWith starts the agent again with additional variables. With killAt among them it starts
// Env.Faulty, unless Options.Program is set.
func (a *Agent) RestartWith(env ...string) {
	s, o := a.scene, a.options
	s.Helper()
	all := slices.Concat(o.Env, env)
	if o.Program == "" {
		o.Program = s.Env.Agent
		if slices.ContainsFunc(all, func(v string) bool { return strings.HasPrefix(v, killAt) }) {
			var err error
			o.Program, err = s.Faulty()
			s.must("build an agent that can be killed at a step", err)
		}
	}
	if o.Kubeconfig == "" {
		o.Kubeconfig = s.Kubeconfig
		switch {
		case o.Disks:
			o.Kubeconfig = s.DisksKubeconfig
		case o.CSI != "":
			o.Kubeconfig = s.CSIKubeconfig
		}
	}
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	s.must("open log", err)
	defer log.Close()
	args := append([]string{"--kubeconfig=" + o.Kubeconfig, "--http-address=" + a.address}, a.driverFlags(o)...)
	if o.Disks {
		args = []string{"disks", "--kubeconfig=" + o.Kubeconfig, "--metrics-addr=" + a.address, "--node-name=" + a.Node.Name,
			"--namespace-name=" + Namespace}
	}
	a.cmd = exec.Command(o.Program, append(args, o.Flags...)...)
	a.cmd.Dir, a.cmd.Stdout, a.cmd.Stderr = "/", log, log
	a.cmd.Env = slices.Concat([]string{"NODE_NAME=" + a.Node.Name, "PV_DIR=" + a.Pool, "PATH=" + os.Getenv("PATH"),
		quickExit, s.times()}, all)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.must("start agent", a.cmd.Start())
	a.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // its result is in ProcessState
		close(done)
	}(a.cmd, a.done)
}

// driverFlags returns the flags of manifests/csi that make sense without a kubelet.
func (a *Agent) driverFlags(o Options) []string {
	if o.CSI == "" {
		return nil
	}
	flags := []string{"--endpoint=unix://" + a.Socket, "--namespace=" + Namespace, "--datadir=" + o.DataDir}
	if o.CSI == "none" {
		return append(flags, "--provision=")
	}
	return append(flags, "--provision="+o.CSI)
}

// Alive reports whether the process runs.
func (a *Agent) Alive() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// Stop ends the agent as a kubelet does. The agent must exit within stopWithin, with code 0. Stop
// does nothing if the agent has ended.
func (a *Agent) Stop() {
	s := a.scene
	s.Helper()
	if !a.Alive() {
		return
	}
	s.must("SIGTERM", a.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-a.done:
	case <-time.After(stopWithin):
		a.Kill()
		s.Errorf("agent of %s: still runs %s after SIGTERM", a.Node.Name, stopWithin)
		return
	}
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		s.Errorf("agent of %s: exit code %d after SIGTERM, want 0", a.Node.Name, code)
	}
}

// Terminate sends the agent the kubelet's signal and does not wait: while a disk holds one of its
// threads, the process cannot end.
func (a *Agent) Terminate() {
	a.scene.Helper()
	a.scene.must("SIGTERM", a.cmd.Process.Signal(syscall.SIGTERM))
}

// Kill ends the agent with SIGKILL.
func (a *Agent) Kill() {
	_ = a.cmd.Process.Kill()
	<-a.done
}

// Ended returns how the process ended, such as "signal: killed", or "" while it runs.
func (a *Agent) Ended() string {
	if a.Alive() {
		return ""
	}
	return a.cmd.ProcessState.String()
}

// Pause stops the agent with SIGSTOP until it is killed.
func (a *Agent) Pause() {
	a.scene.Helper()
	a.scene.must("SIGSTOP", a.cmd.Process.Signal(syscall.SIGSTOP))
}

// Log returns the log of all starts of the agent.
func (a *Agent) Log() string {
	a.scene.Helper()
	data, err := os.ReadFile(a.log)
	a.scene.must("read log", err)
	return string(data)
}

// finish is the clean-up of every agent.
func (a *Agent) finish() {
	s := a.scene
	if a.cmd == nil || a.cmd.Process == nil {
		return
	}
	// clean-up goes backwards, and the agent may have been started after the disk was frozen
	for _, thaw := range s.thaws {
		thaw()
	}
	a.Stop()
	log := a.Log()
	if i := strings.Index(log, "WARNING: DATA RACE"); i >= 0 {
		s.Errorf("agent of %s: a data race:\n%s", a.Node.Name, log[i:min(len(log), i+6000)])
	}
	if s.Failed() {
		lines := strings.Split(strings.TrimSpace(log), "\n")
		s.Logf("the last lines of the agent of %s (%s):\n%s", a.Node.Name, filepath.Base(a.log),
			strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

// Address returns another port of the agent's loopback address.
func (a *Agent) Address(port int) string {
	host, _, _ := strings.Cut(a.address, ":")
	return fmt.Sprintf("%s:%d", host, port)
}

// Get requests a path of the agent's HTTP endpoint.
func (a *Agent) Get(path string) (status int, body string, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	r, err := client.Get("http://" + a.address + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	return r.StatusCode, string(data), err
}
