package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// zeroChunk is how much one call writes: a slow disk does it well within a second, after
	// which a wipe that was cancelled has to have ended.
	zeroChunk = 16 * mebibyte
	// discardChunk is how much one call discards.
	discardChunk = 256 * mebibyte
)

// Progress is how far a wipe is, in bytes.
type Progress struct {
	// Wiped were written or discarded, Verified were read back, each of Total.
	Wiped, Verified, Total int64
}

// VerifyError is the error of a wipe that wrote zeros and read back something else.
type VerifyError struct {
	Path   string
	Offset int64
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("%s: zeros were written, and the device reads as something else at byte %d: replace the disk",
		e.Path, e.Offset)
}

// Wipe wipes the device: it writes or discards as the mode asks, flushes the device, reads back
// every byte that it wiped, and returns nil if each is zero. It remembers nothing: a wipe that was
// interrupted begins again. It ends within a second after the context does, with the context's
// error. progress is called after each step, from this goroutine.
//
// If there are other paths to the device, it first proves that these lead to one disk; see mark.go.
func (x *Exclusive) Wipe(ctx context.Context, mode Mode, progress func(Progress)) error {
	if err := x.proveOne(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	w := &wipe{Exclusive: x, report: progress}
	spans := mode.spans(x.device.Bytes)
	w.progress.Total = total(spans)
	if err := w.run(ctx, mode, spans); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	x.file.Reread()
	return nil
}

// wipe is one under way.
type wipe struct {
	*Exclusive
	report   func(Progress)
	progress Progress
}

func (w *wipe) run(ctx context.Context, mode Mode, spans []span) error {
	discarded := mode == Discard
	if discarded {
		switch err := w.each(ctx, spans, discardChunk, w.discard); {
		case errors.Is(err, unix.EOPNOTSUPP):
			discarded, w.progress.Wiped = false, 0
		case err != nil:
			return err
		}
	}
	if !discarded {
		if err := w.each(ctx, spans, zeroChunk, w.zero); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	// What was discarded and does not read as zeros is written over, and read once more.
	var again []span
	err := w.verify(ctx, spans, func(r span, at int64) error {
		if !discarded {
			return &VerifyError{w.device.Path, at}
		}
		again = append(again, r)
		return w.zero(r)
	})
	if err != nil || len(again) == 0 {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.verify(ctx, again, func(_ span, at int64) error { return &VerifyError{w.device.Path, at} })
}

// each calls do for every chunk of the spans, and counts what it did.
func (w *wipe) each(ctx context.Context, spans []span, chunk int64, do func(span) error) error {
	for _, r := range chunks(spans, chunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(r); err != nil {
			return err
		}
		w.progress.Wiped += r.to - r.from
		w.report(w.progress)
	}
	return nil
}

// chunks yields the spans in pieces of at most that many bytes.
func chunks(spans []span, chunk int64) func(func(int, span) bool) {
	return func(yield func(int, span) bool) {
		n := 0
		for _, s := range spans {
			for from := s.from; from < s.to; from += chunk {
				if !yield(n, span{from, min(from+chunk, s.to)}) {
					return
				}
				n++
			}
		}
	}
}

func (w *wipe) zero(r span) error {
	return w.failed("write zeros to", r, w.file.Zero(r.from, r.to-r.from))
}

func (w *wipe) discard(r span) error {
	return w.failed("discard", r, w.file.Discard(r.from, r.to-r.from))
}

func (w *wipe) flush() error {
	if err := w.file.Flush(); err != nil {
		return &os.PathError{Op: "flush", Path: w.device.Path, Err: err}
	}
	return nil
}

func (w *wipe) failed(what string, r span, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s at byte %d: %w", what, w.device.Path, r.from, err)
}

// verify reads the spans back, and calls dirty for each chunk that has a byte that is not zero, and
// with the position of a block that has it.
func (w *wipe) verify(ctx context.Context, spans []span, dirty func(r span, at int64) error) error {
	for _, r := range chunks(spans, bufferBytes) {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := -1
		if err := w.read(ctx, r, func(data []byte) error { at = notZero(data); return nil }); err != nil {
			return err
		}
		if at >= 0 {
			if err := dirty(r, r.from+int64(at)); err != nil {
				return err
			}
		}
		w.progress.Verified = min(w.progress.Verified+r.to-r.from, w.progress.Total)
		w.report(w.progress)
	}
	return nil
}

// readAt reads a range of the device, all of it.
func (x *Exclusive) readAt(b buffer, r span) ([]byte, error) {
	data := b[:r.to-r.from]
	for done := 0; done < len(data); {
		n, err := x.file.ReadAt(data[done:], r.from+int64(done))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s at byte %d: %w", x.device.Path, r.from+int64(done), err)
		case n == 0:
			return nil, fmt.Errorf("read %s: it ends at byte %d, and had %d bytes",
				x.device.Path, r.from+int64(done), x.device.Bytes)
		}
		done += n
	}
	return data, nil
}

var zeros [64 << 10]byte

// notZero returns the offset of a block of 64 KiB with a byte other than zero, -1 if all are zero.
func notZero(data []byte) int {
	for at := 0; at < len(data); at += len(zeros) {
		part := data[at:min(at+len(zeros), len(data))]
		if !bytes.Equal(part, zeros[:len(part)]) {
			return at
		}
	}
	return -1
}
