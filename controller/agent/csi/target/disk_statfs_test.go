//go:build disk

package target

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDiskStatfs(t *testing.T) {
	kubelet, volume := t.TempDir(), filepath.Join(t.TempDir(), "pvc-v")
	path := filepath.Join(kubelet, "mount")
	for _, dir := range []string{volume, path} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(volume, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	all := New(kubelet)
	if st, err := all.Statfs("pvc-v", path); err != nil || st.Blocks == 0 {
		t.Errorf("statistics: %d blocks, %v", st.Blocks, err)
	}
	if _, err := all.Statfs("pvc-w", path); err != unix.ENOENT {
		t.Errorf("of another volume: %v", err)
	}
}

// A disk answers no statfs(2). Its volume is unmounted meanwhile, so that its pod ends.
func TestDiskUnpublishWhileStatfsHangs(t *testing.T) {
	kubelet := t.TempDir()
	path := filepath.Join(kubelet, "mount")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := mountHanging(t, path)
	const name = "/" // the base name of the mount's root
	all := New(kubelet)
	ended := make(chan error, 1)
	go func() {
		_, err := all.Statfs(name, path)
		ended <- err
	}()
	select {
	case <-disk.asked:
	case err := <-ended:
		t.Fatalf("statistics of a disk that hangs: %v", err)
	}
	again := make(chan error, 1)
	go func() {
		_, err := all.Statfs(name, path)
		again <- err
	}()
	select {
	case <-disk.asked:
		t.Error("two calls wait for the disk")
	case <-time.After(100 * time.Millisecond):
	}
	begin := time.Now()
	if err := all.Unpublish(name, path); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > lockTimeout/2 {
		t.Errorf("the volume was unmounted after %s", took)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is left: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("the statistics did not wait for the disk: %v", err)
	default:
	}
	disk.answer()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-again; !errors.Is(err, unix.ENOENT) {
		t.Errorf("the second call: %v", err)
	}
}

// hanging is a filesystem of one empty directory, which answers no statfs(2) until answer is
// called. Its process is this one; see linux/fuse.h for the protocol.
type hanging struct {
	fd     int
	asked  chan struct{} // a statfs(2) began to wait
	thaw   chan struct{}
	answer func()
}

// Operations of FUSE, and the sizes of what is read and written.
const (
	fuseForget, fuseGetattr, fuseStatfs, fuseInit          = 2, 3, 17, 26
	fuseHeader, fuseInitOut, fuseAttrOut, fuseStatfsOut    = 16, 64, 104, 80
	fuseRequest, fuseMajor, fuseMinor, fuseValid, fuseMode = 1 << 16, 7, 31, 3600, 76
)

// mountHanging mounts such a filesystem at dir until the test ends.
func mountHanging(t *testing.T, dir string) *hanging {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("hanging", dir, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	h := &hanging{fd: fd, asked: make(chan struct{}, 2), thaw: make(chan struct{})}
	h.answer = sync.OnceFunc(func() { close(h.thaw) })
	served := make(chan struct{})
	go func() {
		defer close(served)
		h.serve()
	}()
	t.Cleanup(func() {
		h.answer()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		<-served
		unix.Close(fd)
	})
	return h
}

// serve answers the kernel's requests until the filesystem is unmounted.
func (h *hanging) serve() {
	request := make([]byte, fuseRequest)
	for {
		n, err := unix.Read(h.fd, request)
		if err == unix.EINTR || err == unix.ENOENT { // ENOENT: the caller was interrupted
			continue
		} else if err != nil || n < fuseHeader { // ENODEV: it is unmounted
			return
		}
		unique := binary.NativeEndian.Uint64(request[8:])
		switch binary.NativeEndian.Uint32(request[4:]) {
		case fuseInit:
			out := make([]byte, fuseInitOut)
			binary.NativeEndian.PutUint32(out, fuseMajor)
			binary.NativeEndian.PutUint32(out[4:], fuseMinor)
			h.reply(unique, 0, out)
		case fuseGetattr:
			out := make([]byte, fuseAttrOut)
			binary.NativeEndian.PutUint64(out, fuseValid)
			binary.NativeEndian.PutUint32(out[fuseMode:], unix.S_IFDIR|0o755)
			h.reply(unique, 0, out)
		case fuseStatfs:
			go func() {
				h.asked <- struct{}{}
				<-h.thaw
				h.reply(unique, 0, make([]byte, fuseStatfsOut))
			}()
		case fuseForget: // has no answer
		default:
			h.reply(unique, unix.ENOSYS, nil)
		}
	}
}

func (h *hanging) reply(unique uint64, failure unix.Errno, out []byte) {
	b := binary.NativeEndian.AppendUint32(nil, uint32(fuseHeader+len(out)))
	b = binary.NativeEndian.AppendUint32(b, uint32(-int32(failure)))
	b = append(binary.NativeEndian.AppendUint64(b, unique), out...)
	_, _ = unix.Write(h.fd, b)
}
