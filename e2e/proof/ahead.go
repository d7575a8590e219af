package proof

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// buildCluster builds Kubernetes where it is missing. It waits for another build.
const buildCluster = "cd e2e && go run ./cmd/cluster build"

// packages is the step that installs what all of the steps need, at once: each call of apt-get has to
// read the lists again.
func packages(steps []step) step {
	var groups []string
	for _, s := range steps {
		groups = append(groups, strings.Fields(s.packages)...)
	}
	slices.Sort(groups)
	return step{name: "packages", what: "of Debian, where they are missing",
		packages: strings.Join(slices.Compact(groups), " ")}
}

// aheadOf lists the commands that do, beside the steps, what later ones need.
func aheadOf(steps []step) (commands []string) {
	if slices.ContainsFunc(steps, func(s step) bool { return s.cluster }) {
		commands = append(commands, "("+buildCluster+")")
	}
	for _, s := range steps {
		if s.ahead != "" {
			commands = append(commands, s.ahead)
		}
	}
	return commands
}

// ahead is what runs beside the steps. On a machine that has nothing yet, it takes twenty minutes of
// a processor, and tests that wait leave that much. It has the lowest priority, so that it delays no
// test, and prints nothing: the step that needs it finds out what it could not do.
type ahead struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

func goAhead(ctx context.Context, root string, commands []string) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{cancel: cancel, ended: make(chan struct{})}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", "sh", "-c", strings.Join(commands, "; "))
	cmd.Dir = root
	// go run starts what it has built as a child, so all of the group has to end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	go func() {
		defer close(a.ended)
		_ = cmd.Run()
	}()
	return a
}

// wait returns when all has been done, or tried.
func (a *ahead) wait(ctx context.Context, out io.Writer) {
	select {
	case <-a.ended:
		return
	case <-time.After(2 * time.Second):
	}
	fmt.Fprintln(out, "waiting for what runs beside the steps")
	select {
	case <-a.ended:
	case <-ctx.Done():
	}
}

// end ends what still runs.
func (a *ahead) end() {
	a.cancel()
	<-a.ended
}
