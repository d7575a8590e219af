package device

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// bufferBytes is the size of a buffer: what Signature reads at once where two of its places
	// meet.
	bufferBytes = 2 * probeBytes
	// maxBuffers is how many buffers all wipes and probes of the process have, whatever the number
	// of disks: 32 MiB, of the 256 MiB that manifests/local-pv allows the container. More reads at
	// once make no disk faster.
	maxBuffers = 16
)

// buffer is memory that a device can write to without the page cache: it begins at a page.
type buffer []byte

// pool is the bound of the buffers that are in use at once. Those that are not are in idle.
type pool struct {
	turns chan struct{} // one for each buffer in use
}

// idle has the buffers that are not in use. One is allocated when it is first needed, and kept.
var idle struct {
	sync.Mutex
	buffers []buffer
}

func newPool(most int) *pool { return &pool{turns: make(chan struct{}, most)} }

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

// give takes a buffer back.
func (p *pool) give(b buffer) {
	idle.Lock()
	idle.buffers = append(idle.buffers, b)
	idle.Unlock()
	<-p.turns
}

// read reads a range of the device, all of it, and calls use with what it read. The range has at
// most bufferBytes; use must not keep the data.
func (x *Exclusive) read(ctx context.Context, r span, use func(data []byte) error) error {
	b, err := x.machine.buffers.take(ctx)
	if err != nil {
		return err
	}
	defer x.machine.buffers.give(b)
	data, err := x.readAt(b, r)
	if err != nil {
		return err
	}
	return use(data)
}
