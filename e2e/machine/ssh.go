package machine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Command returns a command that runs a shell script in the machine, as root. The caller runs it.
func (m *Machine) Command(ctx context.Context, script string) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", "-i", filepath.Join(m.dir, "key"), "-p", strconv.Itoa(m.settings.SSHPort), "-q",
		"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
		"ConnectTimeout=60", // on a busy host the machine answers late
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=12", "-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o",
		"ControlPath="+filepath.Join(m.dir, "ssh"),
		"root@127.0.0.1", script)
}

// Run runs a shell script in the machine, as root, and returns its standard output. An error has
// its standard error.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	return m.feed(ctx, nil, script)
}

// feed is Run with a standard input.
func (m *Machine) feed(ctx context.Context, in io.Reader, script string) (string, error) {
	cmd := m.Command(ctx, script)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("in the machine: %s: %w\n%s", script, err,
			tail(append(out.Bytes(), complaints.Bytes()...)))
	}
	return out.String(), nil
}

// tail returns the last lines of a log.
func tail(log []byte) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(log), "\r", "")), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}
