package cluster

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n"
	for _, test := range []struct {
		name, line string
		ticks      uint64
		alive      bool
	}{
		{"running", "42 (etcd)" + rest, 4711, true},
		{"a name that looks like more fields", "42 (a) Z (b c)" + rest, 4711, true},
		{"zombie", "42 (etcd) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 4711 20 21\n", 4711, false},
		{"zombie that its parent reaps", "42 (etcd) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 0 18 4711 20 21\n", 4711, false},
		{"zombie with threads that still end", "42 (etcd) Z" + rest[2:], 4711, true},
		{"cut", "42 (etcd) S 1", 0, false},
		{"empty", "", 0, false},
	} {
		if ticks, alive := parseStat(test.line); ticks != test.ticks || alive != test.alive {
			t.Errorf("%s: %d, %v; want %d, %v", test.name, ticks, alive, test.ticks, test.alive)
		}
	}
}

func TestProcess(t *testing.T) {
	p := Process{Title: "sleeper", Name: "sleeper", Dir: t.TempDir()}
	if err := p.Stop(0); err != nil {
		t.Fatalf("stop what never ran: %v", err)
	}
	if err := p.Start(false, nil, "sleep", "60"); err != nil {
		t.Fatal(err)
	}
	pid, alive := p.PID()
	if !alive {
		t.Fatal("it does not run")
	}
	if err := p.Stop(time.Second); err != nil {
		t.Fatal(err)
	}
	if _, alive := p.PID(); alive {
		t.Fatal("it still runs")
	}
	// Another process under the recorded ID is not ours: it must not be found, and so never be
	// ended.
	other := processRecord{PID: os.Getpid(), Start: 1, Boot: bootID()}
	if err := writeJSON(p.record(), other); err != nil {
		t.Fatal(err)
	}
	if got, alive := p.PID(); alive {
		t.Errorf("process %d is taken for ours, which was %d", got, pid)
	}
}

// The caller's shell may have files open without the mark that closes them for children, such as a
// lock. What outlives the caller must not hold them.
func TestProcessHoldsNoFiles(t *testing.T) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	read := os.NewFile(uintptr(pipe[0]), "pipe")
	defer read.Close()
	p := Process{Title: "sleeper", Name: "sleeper", Dir: t.TempDir()}
	err := p.Start(true, nil, "sleep", "60")
	t.Cleanup(func() { _ = p.Stop(0) })
	if err := errors.Join(err, syscall.Close(pipe[1])); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := read.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != io.EOF {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the process holds the end of a pipe of its starter")
	}
	if _, alive := p.PID(); !alive {
		t.Error("it does not run")
	}
}

func TestParseHierarchies(t *testing.T) {
	const mounts = `tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
`
	want := []hierarchy{
		{"/sys/fs/cgroup/cpu", 1, false},
		{"/sys/fs/cgroup/cpuset", 1, true},
		{"/sys/fs/cgroup/unified", 2, false},
	}
	if got := parseHierarchies(mounts); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMountsBelow(t *testing.T) {
	const mounts = `/dev/sda / ext4 rw 0 0
none /state tmpfs rw 0 0
none /state/a\040b tmpfs rw 0 0
none /state-of-others tmpfs rw 0 0
`
	if got, want := mountsBelow("/state", mounts), []string{"/state", "/state/a b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMissingDirs(t *testing.T) {
	base := t.TempDir()
	a, ab, abc, abd := base+"/a", base+"/a/b", base+"/a/b/c", base+"/a/b/d"
	first := missingDirs(abc, nil)
	if want := []string{a, ab, abc}; !slices.Equal(first, want) {
		t.Errorf("got %q, want %q", first, want)
	}
	if got, want := missingDirs(abd, first), []string{abd}; !slices.Equal(got, want) {
		t.Errorf("with known parents: got %q, want %q", got, want)
	}
	if got := missingDirs(base, nil); len(got) != 0 {
		t.Errorf("%q exists, yet got %q", base, got)
	}
}

func TestLockState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	unlock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil {
		t.Error("locked twice")
	}
	unlock()
	unlock, err = lockState(dir)
	if err != nil {
		t.Fatalf("after unlocking: %v", err)
	}
	unlock()
}

func TestTake(t *testing.T) {
	c := &Cluster{dir: t.TempDir()}
	give, err := c.Take()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Take(); err == nil || !strings.Contains(err.Error(), "other tests use it") {
		t.Errorf("taken twice: %v", err)
	}
	give()
	if _, err := c.Take(); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}

func TestRuns(t *testing.T) {
	dir := t.TempDir()
	c := &Cluster{dir: dir, plane: &ControlPlane{settings: settings{Dir: dir}}, state: &state{Nodes: []nodeState{{Name: "node-01"}}}}
	c.addNodes()
	if c.runs() {
		t.Error("a cluster whose processes have all ended is said to run")
	}
	p := c.nodes[0].process("kubelet")
	if err := p.Start(false, nil, "sleep", "60"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(0) })
	if !c.runs() {
		t.Error("a cluster with one process left is said not to run: its logs would be lost without a word")
	}
}
