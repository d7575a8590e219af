package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The backends, which decide how claims get their node.
const (
	shapeHostPath = "hostpath" // an annotation names the node, and the class binds at once
	shapeCSI      = "csi"      // the scheduler names the node
	shapeBoth     = "hostpath,csi"
)

// subject is a program that serves the claims of one class.
type subject struct {
	name  string // agent, limit, or a peer's
	shape string
	class string
	size  string // of its claims; "" is 1Mi
	from  string // the claim whose volume they are copies of
	// early is set if it does not wait until the controller-manager names it on the claim.
	early bool
	// scheduled lets claims get their node by a later change, as from the scheduler.
	scheduled bool
	command   func(l *lab, at place) *exec.Cmd
}

// place is the node and pool of a subject.
type place struct {
	node, kubeconfig, pool, address, socket string
}

// staged is the flag with which library and agent log the stages.
const staged = "-v=5"

func agentOf(shape string) *subject {
	s := &subject{name: "agent", shape: shape, class: harness.ClassImmediate, early: true}
	if shape == shapeCSI {
		s.class = harness.ClassCSI
	}
	s.command = func(l *lab, at place) *exec.Cmd {
		cmd := exec.Command(l.env.Agent, "--kubeconfig="+at.kubeconfig, "--http-address="+at.address, "--enable-btrfs-quota",
			staged)
		cmd.Env = append(cmd.Env, "NODE_NAME="+at.node)
		if shape != shapeCSI {
			cmd.Env = append(cmd.Env, "PV_DIR="+filepath.Join(at.pool, shapeHostPath))
		}
		if shape != shapeHostPath {
			cmd.Args = append(cmd.Args, "--endpoint=unix://"+at.socket, "--namespace="+harness.Namespace, "--provision="+shape,
				"--datadir="+harness.Datadir(harness.LocalPool, filepath.Join(at.pool, shapeCSI)))
		}
		return cmd
	}
	return s
}

func limitOf(shape string) *subject {
	class := limitClass(shape)
	return &subject{name: "limit", shape: shape, class: class, command: func(l *lab, at place) *exec.Cmd {
		return exec.Command(l.limit, "--kubeconfig="+at.kubeconfig, "--node-name="+at.node,
			"--provisioner="+provisionerOf(class),
			fmt.Sprintf("--csi=%v", shape == shapeCSI), staged)
	}}
}

func peerOf(p peer) *subject {
	return &subject{name: p.name, shape: shapeCSI, class: p.class, command: func(_ *lab, at place) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", "exec "+p.command)
		cmd.Env = append(os.Environ(), "NODE_NAME="+at.node, "KUBECONFIG="+at.kubeconfig, "POOL="+at.pool)
		return cmd
	}}
}

// running is a running subject. The caller calls stop.
type running struct {
	*subject
	place
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs the subject on the node. through is the address of a proxy in front of the API server,
// or empty.
func (l *lab) start(ctx context.Context, s *subject, node, through string) (*running, error) {
	l.began++
	at := place{
		node: node, pool: filepath.Join(l.pool, node), kubeconfig: l.env.CSIKubeconfig,
		// Outgoing connections never use these addresses, so the port is free, also beside another run.
		address: fmt.Sprintf("127.%d.%d.%d:9898", 100+os.Getpid()%100, l.began/250, 1+l.began%250),
		socket:  filepath.Join(l.env.Dir, fmt.Sprintf("csi-%d.sock", l.began)),
	}
	if s.name != "agent" {
		at.kubeconfig = l.env.Plane.Kubeconfig()
	}
	if through != "" {
		var err error
		if at.kubeconfig, err = redirect(at.kubeconfig, through,
			filepath.Join(l.env.Dir, fmt.Sprintf("proxy-%d.kubeconfig", l.began))); err != nil {
			return nil, err
		}
	}
	r := &running{subject: s, place: at, done: make(chan struct{}),
		log: filepath.Join(l.env.Dir, "logs", fmt.Sprintf("%s-%d.log", s.name, l.began))}
	if err := errors.Join(os.MkdirAll(filepath.Dir(r.log), 0o755), os.MkdirAll(at.pool, 0o700)); err != nil {
		return nil, err
	}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r.cmd = s.command(l, at)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	go func() {
		_ = r.cmd.Wait() // done reports its end
		close(r.done)
	}()
	if err := r.await(ctx); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// await waits until an agent is ready. For other programs it does not wait; their first claim does.
func (r *running) await(ctx context.Context) error {
	if r.name != "agent" {
		return nil
	}
	client := http.Client{Timeout: 5 * time.Second}
	for end := time.Now().Add(time.Minute); ; {
		answer, err := client.Get("http://" + r.address + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(answer.Status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.done:
			return fmt.Errorf("%s ended; see %s", r.name, r.log)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s is not ready after a minute: %w; see %s", r.name, err, r.log)
		}
	}
}

// blame adds the path of the log to an error.
func (r *running) blame(err error) error { return fmt.Errorf("%w; see %s", err, r.log) }

// stop ends the subject and waits for its end.
func (r *running) stop() {
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-r.done:
	case <-time.After(5 * time.Second):
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		<-r.done
	}
}

// memory returns a field of the process's status in bytes, such as VmRSS.
func (r *running) memory(field string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field+":" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of process %d", field, r.cmd.Process.Pid)
}
