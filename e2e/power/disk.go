package power

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Kind is what an Event is.
type Kind byte

// The kinds of events.
const (
	Write Kind = 'W'
	Flush Kind = 'F'
	Ask   Kind = 'A' // a caller is about to call
	Told  Kind = 'T' // the call of a caller has succeeded
	Step  Kind = 'S' // the pool is about to change the disk, or a stranger has flushed something
)

// Event is one thing that happened to a disk, or to a caller of its pool.
type Event struct {
	Kind   Kind
	Offset int64  // of a write, in bytes
	Data   []byte // of a write
	Note   Note   // of the others
}

// blockSize is the unit, in bytes, in which a Disk remembers what changed.
const blockSize = 4096

// Disk is a block device in memory. The kernel has it as a loop device with direct I/O on a file of
// FUSE, so each write of a filesystem, and each flush, arrives here, in the order in which the
// filesystem waits for them.
type Disk struct {
	Path string // of the loop device

	loop   *os.File
	dir    string
	server *fuse.Server

	mu      sync.Mutex
	shown   []byte           // what the kernel reads
	durable []byte           // what was flushed, where a replay is
	base    map[int64][]byte // the blocks of the filesystem as it was made, those that were written
	stale   map[int64]bool   // blocks of shown that can differ from durable
	written map[int64]bool   // blocks of durable that can differ from base
	log     []Event
	logging bool
}

// NewDisk returns a disk of so many bytes. The caller closes it.
func NewDisk(size int64) (d *Disk, err error) {
	d = &Disk{stale: map[int64]bool{}, written: map[int64]bool{}, base: map[int64][]byte{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, memory := range []*[]byte{&d.shown, &d.durable} {
		*memory, err = unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			return d, fmt.Errorf("map %d bytes: %w", size, err)
		}
	}
	if d.dir, err = os.MkdirTemp("", "power-disk-"); err != nil {
		return d, err
	}
	d.server, err = fs.Mount(d.dir, &root{disk: d}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMount: true, DisableSplice: true, MaxWrite: 1 << 20, FsName: "power", Name: "power"}})
	if err != nil {
		return d, fmt.Errorf("mount FUSE at %s, which needs root and /dev/fuse: %w", d.dir, err)
	}
	// The device has the file open. Without a mount, no container that starts meanwhile gets a copy
	// of it, which would keep the file beyond the end of the device.
	return d, errors.Join(d.attach(), unix.Unmount(d.dir, unix.MNT_DETACH))
}

// attach makes the loop device. It goes when the last descriptor of it is closed.
func (d *Disk) attach() error {
	file, err := os.OpenFile(filepath.Join(d.dir, fileName), os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for range 20 { // another process may take the free one
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("find a free loop device: %w", err)
		}
		path := fmt.Sprintf("/dev/loop%d", n)
		loop, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO}}
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil {
			d.loop, d.Path = loop, path
			return d.cached()
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("configure %s: %w", path, err)
		}
	}
	return errors.New("other processes take every free loop device")
}

// cached returns an error unless the kernel believes that the device has a cache, and so sends it
// flushes, and reads and writes without a cache of its own.
func (d *Disk) cached() error {
	for file, want := range map[string]string{"queue/write_cache": "write back", "loop/dio": "1"} {
		path := filepath.Join("/sys/block", filepath.Base(d.Path), file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if got := strings.TrimSpace(string(text)); got != want {
			return fmt.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	return nil
}

// Close removes the device. What was mounted from it is unmounted by then.
func (d *Disk) Close() (err error) {
	if d.loop != nil {
		err = d.loop.Close()
	}
	if d.server != nil {
		ended := make(chan struct{})
		go func() { d.server.Wait(); close(ended) }() // until the kernel lets go of the file, a moment after the device
		select {
		case <-ended:
		case <-time.After(10 * time.Second): // a container got a copy of the mount all the same, and may use the memory
			return errors.Join(err, os.Remove(d.dir))
		}
	}
	if d.dir != "" {
		err = errors.Join(err, os.Remove(d.dir))
	}
	for _, memory := range [][]byte{d.shown, d.durable} {
		if memory != nil {
			err = errors.Join(err, unix.Munmap(memory))
		}
	}
	return err
}

// Keep makes what is on the disk now the state to which Rewind goes back.
func (d *Disk) Keep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.stale {
		block := d.shown[b*blockSize : (b+1)*blockSize]
		copy(d.durable[b*blockSize:], block)
		d.base[b] = append([]byte(nil), block...)
	}
	clear(d.stale)
}

// Rewind makes the disk as it was when Keep was called.
func (d *Disk) Rewind() error {
	d.mu.Lock()
	zero := make([]byte, blockSize)
	for b := range d.written {
		block := d.base[b]
		if block == nil {
			block = zero
		}
		copy(d.durable[b*blockSize:], block)
		d.stale[b] = true
	}
	clear(d.written)
	d.mu.Unlock()
	return d.Cut(nil)
}

// Harden makes writes durable, as a flush does. The disk shows them after the next Cut.
func (d *Disk) Harden(writes []Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range writes {
		copy(d.durable[w.Offset:], w.Data)
		each(w, func(b int64) { d.stale[b], d.written[b] = true, true })
	}
}

// Cut makes the disk what it is after a power cut: what is durable, and these writes.
func (d *Disk) Cut(kept []Event) error {
	if err := d.forget(); err != nil { // first: the kernel must not write back what it has
		return err
	}
	d.mu.Lock()
	for b := range d.stale {
		copy(d.shown[b*blockSize:(b+1)*blockSize], d.durable[b*blockSize:])
	}
	clear(d.stale)
	for _, w := range kept {
		copy(d.shown[w.Offset:], w.Data)
		each(w, func(b int64) { d.stale[b] = true })
	}
	d.mu.Unlock()
	return d.forget()
}

// forget drops what the kernel has of the device in memory. It waits for an unmount: while a
// filesystem of it is mounted anywhere, the next mount would show that one's memory.
func (d *Disk) forget() error {
	f, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_EXCL, 0)
	for n := 0; errors.Is(err, unix.EBUSY) && n < 500; n++ {
		time.Sleep(10 * time.Millisecond)
		f, err = os.OpenFile(d.Path, os.O_RDONLY|unix.O_EXCL, 0)
	}
	if err != nil {
		return fmt.Errorf("is a filesystem of it still mounted? %w", err)
	}
	defer f.Close()
	return unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0)
}

// Record begins a new log.
func (d *Disk) Record() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log, d.logging = nil, true
}

// Stop ends the log and returns it.
func (d *Disk) Stop() []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	log := d.log
	d.log, d.logging = nil, false
	return log
}

// Note adds what happened beside the disk to the log.
func (d *Disk) Note(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logging {
		d.log = append(d.log, e)
	}
}

func (d *Disk) write(p []byte, offset int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.shown[offset:], p)
	w := Event{Kind: Write, Offset: offset, Data: p}
	each(w, func(b int64) { d.stale[b] = true })
	if d.logging {
		w.Data = append([]byte(nil), p...)
		d.log = append(d.log, w)
	}
}

// each calls do for every block of a write.
func each(w Event, do func(block int64)) {
	for b := w.Offset / blockSize; b*blockSize < w.Offset+int64(len(w.Data)); b++ {
		do(b)
	}
}
