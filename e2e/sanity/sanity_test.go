// Package sanity holds csi-sanity against the real binary: started as the
// plain driver, spoken to over its socket, with real pools and bind mounts.
// Every case of every advertised capability has to pass; nothing is skipped
// here. It needs root, for the mounts, and fails without.
//
// With -socket it speaks to a driver that runs already. That is how the tests
// of the nodes use it, in a node's mount namespace.
package sanity

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

var (
	deployed = flag.String("socket", "", "the socket of a driver that runs; without it one is built and started")
	below    = flag.String("dir", "", "with -socket, where that driver may mount volumes: a directory below the kubelet's")
	pool     = flag.String("pool", "inner", "the pool that volumes are made in")
)

func TestSanity(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("csi-sanity mounts volumes: run it as root")
	}
	if *deployed != "" {
		conform(t, *deployed, *below)
		return
	}
	dir := t.TempDir()
	pools, kubelet, socket := filepath.Join(dir, "pools"), filepath.Join(dir, "kubelet"), filepath.Join(dir, "csi.sock")
	for _, d := range []string{pools, kubelet} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// One pool inside the other, as the existing operator lays them out.
	dataDirs := fmt.Sprintf(`[{"name":"legacy","path":"%[1]s/outer"},{"name":"inner","path":"%[1]s/outer/csi","shared":false}]`, pools)
	agent := start(t, build(t, dir), socket, "--endpoint=unix://"+socket, "--nodeid=node-01", "--version=sanity", "--metrics-address=",
		"--drivername=kubevirt.io.hostpath-provisioner", "--datadir="+dataDirs, "--kubelet-dir="+kubelet, "--v=4")

	conform(t, socket, kubelet)

	left(t, filepath.Join(pools, "outer"), ".hostpath-provisioner", "csi")
	left(t, filepath.Join(pools, "outer/csi"), ".hostpath-provisioner")
	agent.stop(t)
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// conform runs csi-sanity, with targets below dir, where nothing may stay
// mounted.
func conform(t *testing.T, socket, dir string) {
	config := sanity.NewTestConfig()
	config.Address = "unix://" + socket
	config.TargetPath = filepath.Join(dir, "sanity-target")
	config.StagingPath = filepath.Join(dir, "sanity-staging")
	config.TestVolumeSize = 64 << 20
	// Not every filesystem has reflinks, which a copy needs otherwise.
	config.TestVolumeParameters = map[string]string{"storagePool": *pool, "copy": "allowed"}
	sanity.Test(t, config)

	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(dir+"/sanity-")) {
		t.Errorf("mounts are left below %s (%v)", dir, err)
	}
}

// left fails the test unless dir holds just these.
func left(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, names, want)
	}
}

// build makes the agent as it is released, or with the race detector if HPP_E2E_RACE is set.
func build(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "hostpath-provisioner")
	mode, cgo := []string{"-trimpath", "-tags=grpcnotrace"}, "CGO_ENABLED=0"
	if os.Getenv("HPP_E2E_RACE") != "" {
		mode, cgo = []string{"-race"}, "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", binary}, mode...), "./cmd/hostpath-provisioner")...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	return binary
}

type agent struct {
	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan error
}

// start runs the agent until it answers on the socket. Its log is shown where
// the test fails.
func start(t *testing.T, binary, socket string, args ...string) *agent {
	t.Helper()
	a := &agent{cmd: exec.Command(binary, args...), done: make(chan error, 1)}
	a.cmd.Stdout, a.cmd.Stderr = &a.log, &a.log
	// What the existing operator's DaemonSet sets: it starts no provisioner.
	a.cmd.Env = append(os.Environ(), "PV_DIR=[]", "NODE_NAME=node-01")
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill() // nothing, if it ended by itself
		<-a.done
		if t.Failed() {
			t.Logf("the agent's log:\n%s", a.log.String())
		}
	})
	go func() { a.done <- a.cmd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		var d net.Dialer
		if c, err := d.DialContext(ctx, "unix", socket); err == nil {
			_ = c.Close()
			return a
		}
		select {
		case err := <-a.done:
			a.done <- err
			t.Fatalf("the agent ended: %v", err)
		case <-ctx.Done():
			t.Fatal("the agent does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopWithin is the least terminationGracePeriodSeconds of the manifests, after which a kubelet
// kills the agent.
const stopWithin = 10 * time.Second

// stop ends the agent, and searches its log.
func (a *agent) stop(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-a.done:
		a.done <- err
		if err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	case <-time.After(stopWithin):
		t.Errorf("the agent still runs %s after SIGTERM", stopWithin)
		return
	}
	for _, word := range []string{"DATA RACE", "panic", "code=\"Internal\""} {
		if strings.Contains(a.log.String(), word) {
			t.Errorf("the agent's log has %q", word)
		}
	}
}
