package volume_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A life is a process that has a pool, and dies right before its n-th step. It
// is played by goroutines, each of which ends at its next step; what a process
// holds is given up when its pool is closed.
type life struct {
	mu      sync.Mutex
	armed   bool
	at      int // the step that kills; 0 is none
	steps   int
	dead    bool
	waiting chan struct{} // closed when the call beside reached the step where it waits
	waitAt  int           // counted down; 0 is not any more
	resume  chan struct{}
}

type killed struct{}

func (l *life) step(string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead:
		panic(killed{})
	case !l.armed:
		return
	case l.waitAt > 0:
		if l.waitAt--; l.waitAt == 0 {
			close(l.waiting)
			l.mu.Unlock()
			<-l.resume
			l.mu.Lock()
			if l.dead {
				panic(killed{})
			}
		}
		return
	}
	if l.steps++; l.steps == l.at {
		l.dead = true
		panic(killed{})
	}
}

func (l *life) set(armed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = armed
}

// live calls do and reports whether the process died meanwhile.
func (l *life) live(do func() error) (died bool, err error) {
	defer func() {
		r := recover()
		if _, died = r.(killed); r != nil && !died {
			panic(r)
		}
	}()
	return false, do()
}

// dying makes the call of a scene in a process that is killed at its n-th
// step, or not at all where n is 0. With opening set, the steps of the start
// count.
type dying func(t *testing.T, w *world, s scene, n int, opening bool) (steps int, died bool, answer string)

// dieHere makes the call of a scene in this process.
func dieHere(t *testing.T, w *world, s scene, n int, opening bool) (steps int, died bool, answer string) {
	t.Helper()
	l := &life{at: n, armed: opening, waiting: make(chan struct{}), resume: make(chan struct{})}
	p, err := volume.New(keeping(volume.Config{Path: w.path, Step: l.step}))
	ok(t, err)
	defer func() {
		p.Close()
		if left := openBelow(t, w.path); len(left) > 0 {
			t.Errorf("killed at step %d, it leaves open %q", n, left)
		}
	}()
	if died, err = l.live(p.Open); died {
		return l.steps, true, ""
	}
	ok(t, err)
	l.set(true)
	end := func() {}
	if (s.beside != op{}) {
		end = l.beside(t, w, p, s.beside, n)
	}
	died, err = l.live(func() (err error) {
		answer, err = w.do(p, s.call)
		return err
	})
	steps = l.steps
	end()
	ok(t, err)
	return steps, died, answer
}

// openBelow returns the paths below dir that this process has open. A process that dies has them closed by
// the kernel; one that lives on after a panic does not.
func openBelow(t *testing.T, dir string) (all []string) {
	t.Helper()
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	ok(t, err)
	for _, e := range entries {
		if path, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && strings.HasPrefix(path, dir+"/") {
			all = append(all, path)
		}
	}
	return all
}

// beside brings another call up to one of its steps, where it waits. end lets
// it go on, or die where the process is dead.
func (l *life) beside(t *testing.T, w *world, p *volume.Pool, o op, n int) (end func()) {
	l.waitAt = 1 + n%map[string]int{"create": 7, "delete": 3}[o.do] // it makes as many, or more
	done := make(chan error)
	go func() {
		_, err := l.live(func() error { _, err := w.do(p, o); return err })
		done <- err
	}()
	<-l.waiting
	return func() {
		l.mu.Lock()
		l.armed = false
		l.mu.Unlock()
		close(l.resume)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// dieEnv makes the test binary a process that makes one call of a pool and is
// killed at one of its steps: step, policy, op, name, bytes, path.
const dieEnv = "TEST_DIE_AT"

// dieForReal makes the call of a scene in a process of its own, which the
// kernel kills.
func dieForReal(t *testing.T, w *world, s scene, n int, opening bool) (steps int, died bool, answer string) {
	t.Helper()
	if opening {
		t.Fatal("the start of a process of its own is not counted")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dieEnv+"="+strings.Join([]string{strconv.Itoa(n), string(w.limit), s.call.do, s.call.name,
		strconv.FormatInt(s.call.bytes, 10), w.path}, ","))
	cmd.Stderr = os.Stderr
	w.asked(s.call)
	out, err := cmd.Output()
	if status, exited := cmd.ProcessState.Sys().(syscall.WaitStatus); exited && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return n, true, ""
	}
	count, answer, _ := strings.Cut(string(out), " ")
	steps, bad := strconv.Atoi(count)
	if err != nil || bad != nil {
		t.Fatalf("%v: %v, %q", s.call, err, out)
	}
	w.told(s.call, nil)
	return steps, false, answer
}

// die is the process of dieForReal. It prints its steps and the answer.
func die(args string) error {
	var n, steps int
	words := strings.SplitN(args, ",", 6)
	n, err := strconv.Atoi(words[0])
	bytes, err2 := strconv.ParseInt(words[4], 10, 64)
	armed := false
	p, err3 := volume.New(keeping(volume.Config{Path: words[5], Step: func(string) {
		if !armed {
			return
		}
		if steps++; steps == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more may happen
		}
	}}))
	if err := orErr(err, func() error { return orErr(err2, func() error { return err3 }) }); err != nil {
		return err
	}
	if err := p.Open(); err != nil {
		return err
	}
	armed = true
	answer, err := op{words[2], words[3], bytes}.call(p, record.QuotaPolicy(words[1]))
	if err == nil {
		_, err = os.Stdout.WriteString(strconv.Itoa(steps) + " " + answer)
	}
	return err
}
