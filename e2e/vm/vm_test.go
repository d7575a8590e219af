package vm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/vm"
)

// busybox runs a shell script in a machine.
func busybox(t *testing.T, script string, disks ...string) (vm.Machine, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	return vm.Machine{
		Arch: arch, Args: []string{"busybox", "sh", "-c", script}, Disks: disks, Output: &out, Log: os.Stderr,
	}, &out
}

// What the program says and how it ends comes out, whatever is in it.
func TestExitCode(t *testing.T) {
	t.Parallel()
	m, out := busybox(t, `echo "it's $1"; echo "$V" >&2; exit 3`)
	m.Args = append(m.Args, "sh", "a b'c")
	m.Env = []string{"V=two words"}
	err := vm.Run(t.Context(), m)
	var failed *vm.ExitError
	if !errors.As(err, &failed) || failed.Code != 3 {
		t.Errorf("%v; want exit code 3", err)
	}
	if got := out.String(); got != "it's a b'c\ntwo words\n" {
		t.Errorf("output %q", got)
	}
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	m, _ := busybox(t, "echo c >/proc/sysrq-trigger; sleep 60")
	err := vm.Run(t.Context(), m)
	if err == nil || !strings.Contains(err.Error(), "kernel panic: not syncing: sysrq") {
		t.Errorf("%v; want the panic", err)
	}
}

// The power goes while a program writes: what it flushed is on the disk, the
// disk can be mounted again, and a machine that hangs ends.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	image := disk(t, "mkfs.ext4")
	ctx, cut := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cut()
	m, _ := busybox(t, `mount -t ext4 /dev/vda /mnt && echo one >/mnt/flushed && sync && echo two >/mnt/lost && echo ready && sleep 600`, image)
	m.Output = when("ready", cut)
	if err := vm.Run(ctx, m); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want the machine to be killed", err)
	}
	m, out := busybox(t, `mount -t ext4 /dev/vda /mnt && cat /mnt/flushed && ls -1 /mnt`, image)
	if err := vm.Run(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "one\nflushed\nlost+found\n" {
		t.Errorf("after the power cut: %q", got)
	}
}

// when calls do once the text was written.
func when(text string, do func()) *watcher { return &watcher{text: text, do: do} }

type watcher struct {
	text string
	do   func()
	seen []byte
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.seen = append(w.seen, p...); bytes.Contains(w.seen, []byte(w.text)) {
		w.do()
	}
	return len(p), nil
}
