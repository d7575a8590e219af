package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/controller/disks"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// Process is the devices of a node as one process opens them: package volume/disk on the model.
type Process struct {
	*disk.Machine
	node *Node
	who  string
	dead bool // guarded by node.mu
}

// Process returns the devices for a process of that name.
func (n *Node) Process(who string) *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &Process{node: n, who: who}
	p.Machine = disk.NewMachine(n.root, kernel{p})
	n.processes = append(n.processes, p)
	return p
}

// Kill ends the process: what it has open is closed, and no write of it has an effect any more.
func (p *Process) Kill() {
	p.node.change(func() bool {
		p.dead = true
		for _, b := range p.node.blocks {
			if f, is := b.holder.(*file); is && f.process == p {
				b.holder = nil
			}
		}
		p.node.processes = slices.DeleteFunc(p.node.processes, func(o *Process) bool { return o == p })
		return true
	})
}

// Open implements disks.Devices.
func (p *Process) Open(d disk.Device) (disks.Exclusive, error) {
	x, err := p.Machine.Open(d)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Watch implements disks.Devices.
func (p *Process) Watch(dir string, names *regexp.Regexp, wake func()) (disks.Watcher, error) {
	if _, err := os.Stat(p.node.root + dir); err != nil {
		return nil, err
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	w := &watcher{p.node, dir, names, wake}
	p.node.watchers[w] = true
	return w, nil
}

// kernel is the disk.Kernel of a Process, which has other methods of these names.
type kernel struct{ *Process }

func (k kernel) Resolve(path string) (disk.Number, error) {
	if b := k.node.resolve(path); b != nil {
		return b.number, nil
	}
	if _, err := os.Stat(k.node.root + path); err != nil {
		return disk.Number{}, err
	}
	return disk.Number{}, fmt.Errorf("%s: %w", path, disk.ErrNotADevice)
}

func (k kernel) Open(path string, flags int) (disk.File, error) {
	b := k.node.resolve(path)
	if b == nil {
		return nil, unix.ENOENT
	}
	k.node.mu.Lock()
	defer k.node.mu.Unlock()
	f := &file{process: k.Process, block: b}
	switch {
	case k.dead || b.gone:
		return nil, unix.ENXIO
	case flags&unix.O_EXCL != 0 && !k.node.mayHold(b):
		return nil, unix.EBUSY
	case flags&unix.O_EXCL != 0:
		b.holder = f
	}
	return f, nil
}

// resolve returns the device that a path leads to, nil if there is none.
func (n *Node) resolve(path string) *block {
	at, err := filepath.EvalSymlinks(n.root + path)
	if err != nil || filepath.Dir(at) != n.root+"/dev" {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.blocks, func(b *block) bool { return b.name == filepath.Base(at) })
	if i < 0 {
		return nil
	}
	return n.blocks[i]
}

// file is an open device.
type file struct {
	process *Process
	block   *block
}

func (f *file) Number() (disk.Number, error) { return f.block.number, nil }
func (f *file) Sequence() uint64             { return f.block.sequence }
func (f *file) ReadOnly() bool               { return f.block.disk.Is(ReadOnly) }
func (f *file) Lock() error                  { return nil }
func (f *file) Flush() error                 { return f.use(0) }

func (f *file) Size() (int64, error) {
	if f.ended() {
		return 0, unix.ENXIO
	}
	return f.block.bytes, nil
}

func (f *file) Backing() (disk.Number, error) {
	if f.block.backing == nil || f.ended() {
		return disk.Number{}, unix.ENXIO
	}
	return f.block.backing.number, nil
}

// ended reports whether the process or the device is gone.
func (f *file) ended() bool {
	f.process.node.mu.Lock()
	defer f.process.node.mu.Unlock()
	return f.process.dead || f.block.gone
}

// use takes the time of a read or write.
func (f *file) use(bytes int64) error {
	f.block.disk.wait(bytes)
	if f.ended() || f.block.disk.Is(Broken) {
		return unix.EIO
	}
	return nil
}

func (f *file) ReadAt(data []byte, from int64) (int, error) {
	if err := f.use(int64(len(data))); err != nil {
		return 0, err
	}
	f.block.disk.read(data, f.block.from+from)
	return len(data), nil
}

func (f *file) WriteAt(data []byte, from int64) (int, error) {
	if err := f.use(int64(len(data))); err != nil {
		return 0, err
	}
	if f.ReadOnly() {
		return 0, unix.EPERM
	}
	b, p := f.block, f.process
	at := b.from + from
	lost := b.disk.put(Mark{At: at, Bytes: string(data), Owner: p.who})
	if !slices.ContainsFunc(data, func(c byte) bool { return c != 0 }) {
		b.disk.erase(at, int64(len(data)))
	}
	p.node.wrote(Write{p.node.Name, p.who, b.name, b.disk, at, int64(len(data)), "mark", lost})
	return len(data), nil
}

func (f *file) Zero(from, bytes int64) error { return f.erase("zero", from, bytes) }

func (f *file) Discard(from, bytes int64) error { return f.erase("discard", from, bytes) }

// erase writes zeros piece by piece: a wipe that ends early has wiped a part.
func (f *file) erase(what string, from, bytes int64) error {
	for end := from + bytes; from < end; from += piece {
		if err := f.erasePiece(what, from, min(piece, end-from)); err != nil {
			return err
		}
	}
	return nil
}

const piece = 4 << 20

func (f *file) erasePiece(what string, from, bytes int64) error {
	if err := f.use(bytes); err != nil {
		return err
	}
	if f.ReadOnly() {
		return unix.EPERM
	}
	b, p := f.block, f.process
	lost := b.disk.erase(b.from+from, bytes)
	p.node.wrote(Write{p.node.Name, p.who, b.name, b.disk, b.from + from, bytes, what, lost})
	return nil
}

// Reread is a change of the node: the partitions of a wiped disk go.
func (f *file) Reread() { f.process.node.change(func() bool { return true }) }

func (f *file) Close() {
	f.process.node.mu.Lock()
	defer f.process.node.mu.Unlock()
	if f.block.holder == f {
		f.block.holder = nil
	}
}
