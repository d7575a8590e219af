package disk

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bufferBytes is the size of a buffer: what Signature reads at once where two of its places
	// meet.
	bufferBytes = 2 * probeBytes
	// maxBuffers is how many buffers all wipes and probes of the process have, whatever the number
	// of disks that answer: 32 MiB, of the 256 MiB that manifests/local-pv allows the container. More reads at
	// once make no disk faster.
	maxBuffers = 16
)

// buffer is memory that a device can write to without the page cache: it begins at a page.
type buffer []byte

// pool is the bound of the buffers that are in use at once. Those that are not are in idle.
type pool struct {
	turns chan struct{} // one for each buffer in use
	// hung has one for each buffer whose read has lasted so long that its turn was given to another
	// disk. A read of a disk that hangs cannot be ended, and its buffer not be used meanwhile.
	hung chan struct{}
}

const (
	// hangs is how long a read of a buffer takes at most, unless the disk hangs.
	hangs = 30 * time.Second
	// maxHung is how many buffers disks that hang have beside maxBuffers: 64 MiB. Disks beyond that
	// keep their turns.
	maxHung = 32
)

// idle has the buffers that are not in use. One is allocated when it is first needed, and kept.
var idle struct {
	sync.Mutex
	buffers []buffer
}

func newPool(most int) *pool {
	return &pool{turns: make(chan struct{}, most), hung: make(chan struct{}, maxHung)}
}

// take returns a buffer, and waits for one if all are in use: in turn, so that a disk that is read
// for hours delays the others by a read, and no more. The error is the context's, or that of the
// kernel. The caller gives the buffer back.
func (p *pool) take(ctx context.Context) (buffer, error) {
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	idle.Lock()
	defer idle.Unlock()
	if last := len(idle.buffers) - 1; last >= 0 {
		b := idle.buffers[last]
		idle.buffers = idle.buffers[:last]
		return b, nil
	}
	b, err := unix.Mmap(-1, 0, int(bufferBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		<-p.turns
	}
	return b, err
}

// give takes a buffer back. The caller gives the turn back before or after.
func (p *pool) give(b buffer) {
	idle.Lock()
	defer idle.Unlock()
	if len(idle.buffers) < cap(p.turns) {
		idle.buffers = append(idle.buffers, b)
		return
	}
	_ = unix.Munmap(b) // cannot fail for memory of Mmap
}

// turn is one of a pool's turns, while its owner reads.
type turn struct {
	*pool
	mu         sync.Mutex
	hung, over bool
}

// hang gives the turn to another disk, if the read has not ended and not too many disks hang.
func (t *turn) hang() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	select {
	case t.pool.hung <- struct{}{}:
		t.hung = true
		<-t.turns
	default:
	}
}

// end gives the turn back.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over = true; t.hung {
		<-t.pool.hung
	} else {
		<-t.turns
	}
}

// borrow calls use with a buffer, whose turn goes to another disk while that takes long.
func (x *Exclusive) borrow(ctx context.Context, use func(buffer) error) error {
	p := x.machine.buffers
	b, err := p.take(ctx)
	if err != nil {
		return err
	}
	t := &turn{pool: p}
	timer := time.AfterFunc(hangs, t.hang)
	defer func() {
		timer.Stop()
		p.give(b)
		t.end()
	}()
	return use(b)
}

// read reads a range of the device, all of it, and calls use with what it read. The range has at
// most bufferBytes; use must not keep the data. While a disk hangs, it does not return.
func (x *Exclusive) read(ctx context.Context, r span, use func(data []byte) error) error {
	return x.borrow(ctx, func(b buffer) error {
		data, err := x.readAt(b, r)
		if err != nil {
			return err
		}
		return use(data)
	})
}
