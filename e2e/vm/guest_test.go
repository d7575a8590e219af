package vm_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"kubevirt.io/hostpath-provisioner/e2e/vm"
)

const mib = 1 << 20

// writesAll waits until the disk has its final size, and writes all of it. What it reports goes to
// the output, line by line.
const writesAll = `
size() { cat /sys/block/vda/size; }
echo "boots with $(size)"
while [ "$(size)" -lt $SECTORS ]; do sleep 0.2; done
echo "has $(size)"
head -c 1000000 /dev/urandom >/tmp/block
for i in $(seq $SECTORS); do echo $i; cat /tmp/block || break; done 2>/dev/null | head -c $((SECTORS * 512)) |
	dd of=/dev/vda bs=1M conv=fsync && echo written || echo failed
md5sum /dev/vda
`

// A guest's disk is an image in a volume of the driver, which has a quota, or on a filesystem that
// is full. The image grows while the guest runs. Then the guest writes more than fits: what qemu
// does depends on the error and on the disk's error policy, of which KubeVirt's is "stop". A guest
// that was stopped goes on when there is space, and has lost nothing.
func TestGuestIsFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts disks: run it as root")
	}
	driver := sync.OnceValue(func() string { return agent(t) })
	for _, row := range []struct {
		name, kind, options, want string
	}{
		{"btrfs with a quota and KubeVirt's policy", "btrfs", "werror=stop,rerror=stop", "stop"},
		{"btrfs with a quota and qemu's policy", "btrfs", "", "report"},
		{"xfs that is full and KubeVirt's policy", "xfs", "werror=stop,rerror=stop", "stop"},
		{"xfs that is full and qemu's policy", "xfs", "", "stop"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, row.kind, driver())
			g := h.boots(t, row.options)
			g.grows()
			g.until("the disk is full", func() bool { return len(g.failures()) > 0 })
			if got := g.failures()[0]; got != row.want {
				t.Fatalf("qemu did %q, want %q", got, row.want)
			}
			if row.want == "stop" {
				if status := g.do("query-status", nil); !strings.Contains(status, `"io-error"`) {
					t.Errorf("the guest is %s", status)
				}
				h.moreSpace()
				g.do("cont", nil)
			}
			err := <-g.ended
			out := g.out.String()
			t.Logf("%v\n%s", err, out)
			if wrote := strings.Contains(out, "\nwritten\n"); err != nil || wrote != (row.want == "stop") {
				t.Errorf("%v; the guest wrote all: %v", err, wrote)
			}
			if row.want == "stop" && !strings.Contains(out, h.sum()) {
				t.Errorf("the image has the checksum %s", h.sum())
			}
		})
	}
}

// Sizes of the drill. The image ends larger than its volume, as sparse images may.
const (
	diskSize   = 512 * mib
	volumeSize = 96 * mib
	imageStart = 64 * mib
	imageEnd   = 160 * mib
	roomAgain  = 256 * mib
)

// host is a filesystem with a volume, and an image in it.
type host struct {
	*testing.T
	volume, image string
	filler        string // takes the space of a filesystem without quotas

	driver csi.ControllerClient
	id     string
}

func newHost(t *testing.T, kind, program string) *host {
	t.Helper()
	dir := t.TempDir()
	mount, target := filepath.Join(dir, "disk"), filepath.Join(dir, "kubelet", "volume")
	for _, d := range []string{mount, filepath.Dir(target)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "disk.img")
	must(t, "truncate", "-s", fmt.Sprint(diskSize), file)
	must(t, "mkfs."+kind, "-q", file)
	must(t, "mount", "-o", "loop", file, mount)
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	h := &host{T: t, volume: target, image: filepath.Join(target, "disk.img")}
	conn := serve(t, program, filepath.Join(dir, "csi.sock"), mount+"/pool", filepath.Join(dir, "kubelet"))
	h.driver = csi.NewControllerClient(conn)
	capability := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	made, err := h.driver.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "vm", VolumeCapabilities: []*csi.VolumeCapability{capability},
		CapacityRange: &csi.CapacityRange{RequiredBytes: volumeSize}, Parameters: map[string]string{"storagePool": "local"}})
	if err != nil {
		t.Fatal(err)
	}
	h.id = made.GetVolume().GetVolumeId()
	if _, err := csi.NewNodeClient(conn).NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: h.id, TargetPath: target,
		VolumeCapability: capability, VolumeContext: made.GetVolume().GetVolumeContext()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	must(t, "truncate", "-s", fmt.Sprint(imageStart), h.image)
	if kind != "btrfs" { // this kernel may have no quotas for it
		var free unix.Statfs_t
		if err := unix.Statfs(mount, &free); err != nil {
			t.Fatal(err)
		}
		h.filler = filepath.Join(mount, "filler")
		must(t, "fallocate", "-l", fmt.Sprint(int64(free.Bavail)*free.Bsize-volumeSize), h.filler)
	}
	return h
}

// moreSpace grows the volume, or frees space on a disk that is full. The driver reads what is used
// once a second at most, and meanwhile refuses growth that may not fit.
func (h *host) moreSpace() {
	h.Helper()
	if h.filler != "" {
		if err := os.Remove(h.filler); err != nil {
			h.Fatal(err)
		}
		return
	}
	var err error
	for range 100 {
		if _, err = h.driver.ControllerExpandVolume(h.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: h.id,
			CapacityRange: &csi.CapacityRange{RequiredBytes: roomAgain}}); err == nil {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	h.Fatal(err)
}

// sum is the image's checksum.
func (h *host) sum() string {
	h.Helper()
	f, err := os.Open(h.image)
	if err != nil {
		h.Fatal(err)
	}
	defer f.Close()
	sum := md5.New()
	if n, err := io.Copy(sum, f); err != nil || n != imageEnd {
		h.Fatalf("%d bytes, %v", n, err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// guest is a machine with the image as its disk.
type guest struct {
	*monitor
	out   *syncBuffer
	ended chan error
}

func (h *host) boots(t *testing.T, options string) *guest {
	t.Helper()
	g := &guest{out: &syncBuffer{}, ended: make(chan error, 1)}
	m := vm.Machine{Disks: []string{h.image}, DiskOptions: options, Monitor: filepath.Join(t.TempDir(), "qmp"), Output: g.out,
		Args: []string{"sh", "-c", writesAll}, Env: []string{fmt.Sprintf("SECTORS=%d", imageEnd/512)}}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	go func() { g.ended <- vm.Run(ctx, m) }()
	g.monitor = attach(t, m.Monitor)
	return g
}

// grows resizes the image as KubeVirt does, and waits until the guest sees it.
func (g *guest) grows() {
	g.Helper()
	g.until("the guest is up", func() bool { return strings.Contains(g.out.String(), fmt.Sprintf("boots with %d\n", imageStart/512)) })
	if answer := g.do("block_resize", map[string]any{"device": "virtio0", "size": imageEnd}); answer != "{}" {
		g.Fatal(answer)
	}
	g.until("the guest sees the growth", func() bool { return strings.Contains(g.out.String(), fmt.Sprintf("has %d\n", imageEnd/512)) })
}

// until waits, and ends the test when the machine ends before.
func (g *guest) until(what string, done func() bool) {
	g.Helper()
	for end := time.Now().Add(5 * time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-g.ended:
			if !done() {
				g.Fatalf("%s: the machine ended before: %v\n%s", what, err, g.out.String())
			}
			g.ended <- err
			return
		default:
		}
		if time.Now().After(end) {
			g.Fatalf("%s: it does not happen\n%s", what, g.out.String())
		}
	}
}

// syncBuffer is written by the machine while the test reads it.
type syncBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ReplaceAll(b.all.String(), "\r", "")
}

func must(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// agent builds the agent for this machine.
func agent(t *testing.T) string {
	t.Helper()
	program := filepath.Join(programs.dir, "hostpath-provisioner")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/hostpath-provisioner")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	return program
}

// serve starts the agent as a plain CSI driver with one pool, until the test ends.
func serve(t *testing.T, program, socket, pool, kubelet string) *grpc.ClientConn {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(program, "--endpoint=unix://"+socket, "--nodeid=node-01", "--metrics-address=", "--enable-btrfs-quota",
		"--drivername=kubevirt.io.hostpath-provisioner", fmt.Sprintf(`--datadir=[{"name":"local","path":%q}]`, pool), "--kubelet-dir="+kubelet)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(), "PV_DIR=[]", "NODE_NAME=node-01")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		var killed *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &killed) || t.Failed() {
			t.Logf("the agent: %v\n%s", err, log.String())
		}
	})
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
