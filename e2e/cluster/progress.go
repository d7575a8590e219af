package cluster

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress prints one line per step, each with the seconds since the start.
type Progress struct {
	start time.Time
	mu    sync.Mutex // guards out
	out   io.Writer
}

// NewProgress begins now. A nil writer discards the lines.
func NewProgress(out io.Writer) *Progress {
	if out == nil {
		out = io.Discard
	}
	return &Progress{start: time.Now(), out: out}
}

// Say prints a line.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%6.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// heartbeat is the longest time without a line.
const heartbeat = 10 * time.Second

// During runs f and prints a line every heartbeat, so that a long step is not mistaken for a hang.
func (p *Progress) During(what string, f func() error) error {
	begin := time.Now()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.Say("%s: %d s so far", what, int(time.Since(begin).Seconds()))
			}
		}
	})
	err := f()
	close(done)
	wg.Wait()
	return err
}
