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

// These are set before the first test and not changed. All tests share the machine, one after
// another.
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

// soon is how long the cluster may take for one thing: a program runs ten to twenty times slower
// than on the host.
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
	const unit = "hostpath-provisioner.service"
	if err := guest.Write(ctx, "/etc/systemd/system/"+unit, filepath.Join(root, "systemd", unit)); err != nil {
		return err
	}
	if _, err := guest.Run(ctx, `set -e
mkdir -p /etc/systemd/system/`+unit+`.d
cat >/etc/systemd/system/`+unit+`.d/path.conf <<EOF
[Unit]
RequiresMountsFor=`+disk+`
[Service]
Environment="PV_DIR=`+disk+`"
EOF
systemctl daemon-reload
systemctl enable --now `+unit); err != nil {
		return fmt.Errorf("install the unit: %w", err)
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
	if err := applyAgent(); err != nil {
		return err
	}
	return agentReady()
}

// applyAgent applies testdata/agent, whose base is an example outside that directory.
func applyAgent() error {
	objects, err := guest.Plane().Kubectl("", "kustomize", "--load-restrictor", "LoadRestrictionsNone", "testdata/agent")
	if err == nil {
		_, err = guest.Plane().Kubectl(objects, "apply", "-f", "-")
	}
	return err
}

func agentReady() error {
	_, err := guest.Plane().Kubectl("", "-n", namespace, "rollout", "status", agentSet, "--timeout="+soon.String())
	return err
}

// do runs kubectl in a test, as the cluster's administrator.
func do(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := guest.Plane().Kubectl(stdin, args...)
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

// wantWords compares a part of what a script on the machine prints, and a part that it must not
// print. "" is no part.
func wantWords(t *testing.T, script, words, not string) {
	t.Helper()
	if err := hasWords(t, script, words, not); err != nil {
		t.Error(err)
	}
}

// awaitWords is wantWords of what comes within a time. The test ends if it does not come.
func awaitWords(t *testing.T, within time.Duration, script, words, not string) {
	t.Helper()
	if err := machine.Poll(t.Context(), within, func() error { return hasWords(t, script, words, not) }); err != nil {
		t.Fatal(err)
	}
}

func hasWords(t *testing.T, script, words, not string) error {
	t.Helper()
	if got := on(t, script); !strings.Contains(got, words) || not != "" && strings.Contains(got, not) {
		return fmt.Errorf("%s: want %q and not %q in\n%s", script, words, not, got)
	}
	return nil
}
