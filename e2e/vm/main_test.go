package vm_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// arch is the machines' architecture.
var arch = cmp.Or(os.Getenv("HPP_E2E_VM_ARCH"), "amd64")

// Most tests run at once: a machine boots on one processor. TestReadHangs measures time and runs
// alone.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vm-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs.dir = dir
	return m.Run()
}

// programs are the tests of other packages, built for a machine once each.
var programs testPrograms

type testPrograms struct {
	mu  sync.Mutex
	dir string
}

// build returns the program with the tests of a package, and builds it if no test has yet.
func (p *testPrograms) build(pkg string) (program string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	program = filepath.Join(p.dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	cmd := exec.Command("go", "test", "-c", "-tags", "vm", "-o", program, pkg)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return program, nil
}

// linesOf logs whole lines of a machine's output as the test's, since several machines run at once.
func linesOf(t *testing.T) io.Writer { return &lineLog{t: t} }

type lineLog struct {
	t    *testing.T
	rest []byte
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.t.Logf("%s", line)
		l.rest = rest
	}
}
