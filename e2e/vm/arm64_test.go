package vm_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/vm"
)

// sources are what the tests of the programs' packages read.
var sources = []string{"go.mod", "api", "cmd", "controller", "docs", "manifests", "systemd", "volume"}

// prepare makes a machine as programs expect one: with commands, an address of its own, memory for
// temporary files, and the disk at /mnt.
const prepare = `set -e
/bin/busybox --install -s /bin
ifconfig lo 127.0.0.1 up
mkdir -p /etc /home /opt /root /run /sbin /srv /usr/lib /var/lib && echo 127.0.0.1 localhost >/etc/hosts && echo root:x:0:0::/tmp:/bin/sh >/etc/passwd
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
mount -o remount,size=16g /tmp
mount -t ext4 /dev/vda /mnt
`

// The agent for arm64, built as a release builds it, prints its flags, starts without an API
// server, makes its pool, ends when it is asked to, and inspects what it left.
func TestArm64Agent(t *testing.T) {
	t.Parallel()
	tree, image := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	_, err := in("../..", "env", "CGO_ENABLED=0", "GOARCH=arm64", "go", "build", "-trimpath", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -X main.version=v0", "-o", tree+"/", "./cmd/...")
	if err == nil {
		_, err = in("", "mkfs.ext4", "-q", "-d", tree, image, "400m")
	}
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	bootArm64(t, image, &printed, prepare+`
agent=/mnt/hostpath-provisioner
$agent version
$agent --help 2>&1 | grep -e --endpoint
/mnt/hostpath-operator --help 2>&1 | grep -e --kubeconfig
/mnt/kubectl-hpp version --client
mkdir -p /tmp/pool /tmp/plugin /tmp/kubelet
if $agent inspect /tmp/pool; then exit 1; fi
$agent --endpoint=unix:///tmp/plugin/csi.sock --nodeid=node-01 --datadir='[{"name":"legacy","path":"/tmp/pool"}]' \
	--kubelet-dir=/tmp/kubelet --http-address=127.0.0.1:9898 --metrics-address= &
until wget -qO- http://127.0.0.1:9898/readyz; do sleep 0.2; done
test -S /tmp/plugin/csi.sock
kill -TERM $! && wait $!
$agent inspect /tmp/pool
echo all of it`)
	for _, want := range []string{"hostpath-provisioner v0 linux/arm64 ", "plugin   v0\n", "no pool", "all of it\n"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("no %q in\n%s", want, &printed)
		}
	}
}

// unfit are tests, by package, that say nothing in an emulated machine. All tests of a package are
// unfit by the pattern ".".
var unfit = map[string]string{
	"controller/operator/install": ".",                        // makes an RSA key in most of its tests, which takes minutes here
	"controller/kube/events":      "^TestReasonsAreComplete$", // starts the go command
	"controller/plugin":           "^TestCompletionScript$",   // starts bash
	// A slow disk is one that needs 100 ms, and one that does not answer needs five seconds.
	"volume": "^(TestNoCallGoesOnWithoutItsCaller|TestModel)$",
}

// perMachine is how many packages share a machine: to boot one takes as long as most packages' tests.
const perMachine = 8

// The unit tests of the agent, the disk agent, the operator and the plugin on arm64.
func TestArm64Units(t *testing.T) {
	t.Parallel()
	out, err := in("../..", "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}",
		"./cmd/...", "./controller/...", "./volume/...")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for _, name := range sources {
		if _, err := in(root, "cp", "-a", name, tree); err != nil {
			t.Fatal(err)
		}
	}
	var packages []string
	for dir := range strings.FieldsSeq(out) {
		pkg, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		if unfit[pkg] != "." {
			packages = append(packages, pkg)
		}
	}
	var building sync.Mutex // the programs are large, and the compiler uses all processors
	for group := range slices.Chunk(packages, perMachine) {
		t.Run("from "+group[0], func(t *testing.T) {
			t.Parallel()
			image := filepath.Join(t.TempDir(), "disk")
			building.Lock()
			err := unitsImage(tree, group, image)
			building.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			runUnits(t, image, group)
		})
	}
}

// runUnits runs the tests of packages one after another in a machine with the disk of unitsImage.
func runUnits(t *testing.T, image string, packages []string) {
	t.Helper()
	passed := func(pkg string) string { return "every test of " + pkg + " passed\n" }
	script := prepare
	for _, pkg := range packages {
		script += "(cd /mnt/" + pkg + " && exec ./" + unitsProgram + " -test.timeout=15m -test.skip='" + unfit[pkg] + "') && echo " + passed(pkg)
	}
	var printed strings.Builder
	bootArm64(t, image, io.MultiWriter(linesOf(t), &printed), script+"true")
	for _, pkg := range packages {
		t.Run(pkg, func(t *testing.T) {
			if !strings.Contains(printed.String(), passed(pkg)) {
				t.Error("the tests failed, or did not end: the machine's output is above")
			}
		})
	}
}

const unitsProgram = "units.test"

// unitsImage makes a disk with the tree, and in it the tests of each package as a program for arm64.
func unitsImage(tree string, packages []string, image string) error {
	var programs []string
	defer func() {
		for _, program := range programs {
			_ = os.Remove(program)
		}
	}()
	for _, pkg := range packages {
		program := filepath.Join(tree, pkg, unitsProgram)
		programs = append(programs, program)
		if _, err := in("../..", "env", "CGO_ENABLED=0", "GOARCH=arm64", "go", "test", "-c", "-o", program, "./"+pkg); err != nil {
			return err
		}
	}
	_, err := in("", "mkfs.ext4", "-q", "-d", tree, image, "2g")
	return err
}

// bootArm64 runs a shell script in a machine with a disk.
func bootArm64(t *testing.T, image string, output io.Writer, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	err := vm.Run(ctx, vm.Machine{
		Arch: "arm64", Args: []string{"busybox", "sh", "-c", script}, Disks: []string{image}, Memory: 2048, Output: output,
	})
	if err != nil {
		t.Error(err)
	}
}

// in runs a program in a directory, and returns what it prints.
func in(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		return "", errors.Join(err, errors.New(cmd.String()), errors.New(log.String()))
	}
	return string(out), nil
}
