package torture

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// stage runs a harness scene outside of a test: it implements harness.TB.
type stage struct {
	ctx     context.Context
	cancel  context.CancelFunc
	begin   time.Time
	mu      sync.Mutex
	journal io.Writer
	trouble []string // messages of Error and Fatal
	cleanup []func()
}

// play calls f and then its clean-up, also if Fatal ended f. It returns the trouble.
func play(ctx context.Context, journal io.Writer, f func(*stage)) []string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stage{ctx: ctx, cancel: cancel, begin: time.Now(), journal: journal}
	s.apart(func() { f(s) })
	cancel()
	for last := s.pop(); last != nil; last = s.pop() {
		s.apart(last)
	}
	return s.trouble
}

// pop returns the next clean-up, nil if none is left.
func (s *stage) pop() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.cleanup)
	if n == 0 {
		return nil
	}
	last := s.cleanup[n-1]
	s.cleanup = s.cleanup[:n-1]
	return last
}

// apart calls f in a goroutine that Fatal may end.
func (s *stage) apart(f func()) {
	var wg sync.WaitGroup
	wg.Go(f)
	wg.Wait()
}

func (s *stage) Name() string             { return "torture" }
func (s *stage) Helper()                  {}
func (s *stage) Context() context.Context { return s.ctx }

// TempDir creates a directory that is removed at the end.
func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "torture-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanup = append(s.cleanup, f)
}

func (s *stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.trouble) > 0
}

// Log and Logf write to the journal.
func (s *stage) Log(args ...any)                 { s.write(fmt.Sprint(args...)) }
func (s *stage) Logf(format string, args ...any) { s.write(fmt.Sprintf(format, args...)) }

func (s *stage) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.journal, "%8.3f %s\n", time.Since(s.begin).Seconds(), line)
}

func (s *stage) Error(args ...any) { s.fail(fmt.Sprint(args...)) }

func (s *stage) Errorf(format string, args ...any) { s.fail(fmt.Sprintf(format, args...)) }

func (s *stage) fail(what string) {
	s.write("TROUBLE " + what)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.trouble, what) {
		s.trouble = append(s.trouble, what)
	}
}

// Fatal ends the campaign, and the goroutine that calls it.
func (s *stage) Fatal(args ...any) { s.die(fmt.Sprint(args...)) }

// Fatalf is as Fatal.
func (s *stage) Fatalf(format string, args ...any) { s.die(fmt.Sprintf(format, args...)) }

func (s *stage) die(what string) {
	if s.ctx.Err() == nil { // after its end every call fails
		s.fail(what)
	}
	s.cancel()
	runtime.Goexit()
}
