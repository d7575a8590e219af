package machine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/machine"
)

// These are set before the first test and not changed. All tests share the machine, one after another.
var (
	guest *machine.Machine
	root  string // of the agent's module
)

const (
	agentImage = "registry.invalid/hostpath-provisioner:v0.1.0"
	agentSet   = "daemonset/hostpath-provisioner-csi"
	namespace  = "hostpath-provisioner"
	disk       = "/var/hpvolumes/disk"
	confined   = "/usr/local/bin/busybox" // a program with the label of those in images
)

// soon is how long the cluster may take for one thing: a program runs ten to twenty times slower than on the host.
const soon = 4 * time.Minute

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run uses the machine of HPP_E2E_MACHINE, or boots one and ends it.
func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if root, err = filepath.Abs("../.."); err != nil {
		return 1, err
	}
	if dir := os.Getenv("HPP_E2E_MACHINE"); dir != "" {
		if guest, err = machine.Open(dir); err != nil {
			return 1, err
		}
	} else {
		dir, err := os.MkdirTemp("", "machine-")
		if err != nil {
			return 1, err
		}
		if guest, err = machine.Up(ctx, machine.Options{Dir: dir, Version: os.Getenv("K8S_VERSION"), Log: os.Stderr}); err != nil {
			return 1, err
		}
		defer func() {
			if e := guest.Down(); err == nil {
				err = e
			}
		}()
	}
	if err := install(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// install puts the unit of systemd/ and the agent onto the machine, as their pages say.
func install(ctx context.Context) error {
	unit, err := os.Open(filepath.Join(root, "systemd", "hostpath-provisioner.service"))
	if err != nil {
		return err
	}
	defer unit.Close()
	cmd := guest.Command(ctx, `set -e
cat >/etc/systemd/system/hostpath-provisioner.service
mkdir -p /etc/systemd/system/hostpath-provisioner.service.d
cat >/etc/systemd/system/hostpath-provisioner.service.d/path.conf <<EOF
[Unit]
RequiresMountsFor=`+disk+`
[Service]
Environment="PV_DIR=`+disk+`"
EOF
systemctl daemon-reload
systemctl enable --now hostpath-provisioner.service`)
	cmd.Stdin = unit
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install the unit: %w\n%s", err, out)
	}
	dir, err := os.MkdirTemp("", "machine-agent-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "hostpath-provisioner")
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", program, "./cmd/hostpath-provisioner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	if err := errors.Join(guest.Load(ctx, agentImage, program), guest.Write(ctx, "/usr/local/bin/hostpath-provisioner", program),
		guest.Write(ctx, confined, "/bin/busybox")); err != nil {
		return err
	}
	if _, err := guest.Run(ctx, "chcon -t container_file_t "+confined); err != nil {
		return err
	}
	if _, err := kubectl("", "apply", "-k", "testdata/agent"); err != nil {
		return err
	}
	return agentReady()
}

func agentReady() error {
	_, err := kubectl("", "-n", namespace, "rollout", "status", agentSet, "--timeout="+soon.String())
	return err
}

// kubectl runs kubectl as the cluster's administrator, and returns what it printed.
func kubectl(stdin string, args ...string) (string, error) {
	cmd := exec.Command(guest.Plane().Binaries().Path("kubectl"), append([]string{"--kubeconfig", guest.Plane().Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return string(out), err
}

// do is kubectl in a test.
func do(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := kubectl(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// on runs a script on the machine, also in a cleanup.
func on(t *testing.T, script string) string {
	t.Helper()
	out, err := guest.Run(context.WithoutCancel(t.Context()), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// wantRefused runs a script on the machine that has to fail with the words.
func wantRefused(t *testing.T, script, words string) {
	t.Helper()
	if out, err := guest.Run(t.Context(), script+" 2>&1"); err == nil || !strings.Contains(out+err.Error(), words) {
		t.Errorf("%s: %v, want %q\n%s", script, err, words, out)
	}
}

// want compares what a script on the machine prints.
func want(t *testing.T, script, text string) {
	t.Helper()
	if got := on(t, script); got != text {
		t.Errorf("%s: got\n%s\nwant\n%s", script, got, text)
	}
}
