package suite

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// statfs is what the operating system says of a path's filesystem: its size, and what is free for
// users.
func statfs(s *harness.Scene, path string) (total, free float64) {
	s.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		s.Fatal(err)
	}
	return float64(st.Blocks) * float64(st.Frsize), float64(st.Bavail) * float64(st.Frsize)
}

// Each row spoils one setting of an agent that would start.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	dir := s.Path("pools", "wrong")
	s.Write(dir, "file", nil)
	s.Cover(filepath.Dir(s.Path("pools", "readonly/mount/x")), "-o", "ro")
	before := s.Tree(filepath.Dir(dir))
	exit := map[string]int{ // the others are 2
		"parent missing": 1, "read-only": 1, "read-only parent": 1, "kubeconfig": 1, "address": 1,
	}
	for _, test := range []struct {
		name, variable string
		flags          []string
		words          []string
	}{
		{"no node name", "NODE_NAME=", nil, []string{"NODE_NAME"}},
		{"no directory", "PV_DIR=", nil, []string{"PV_DIR"}},
		{"parent missing", "PV_DIR=" + dir + "/absent/pool", nil, []string{dir + "/absent", "missing"}},
		{"a file", "PV_DIR=" + dir + "/file", nil, []string{dir + "/file", "directory"}},
		{"below a file", "PV_DIR=" + dir + "/file/pool", nil, []string{dir + "/file", "directory"}},
		{"the root", "PV_DIR=/", nil, []string{`"?/"?`, "system"}},
		{"a directory of the system", "PV_DIR=/etc/pool", nil, []string{"/etc", "system"}},
		{"read-only", "PV_DIR=" + filepath.Dir(dir) + "/readonly/mount", nil, []string{"readonly/mount", "read-only"}},
		{"read-only parent", "PV_DIR=" + filepath.Dir(dir) + "/readonly/mount/pool", nil, []string{"readonly/mount", "read-only"}},
		{"unknown flag", "", []string{"--no-such-flag"}, []string{"no-such-flag", "--help"}},
		{"unknown command", "", []string{"explode"}, []string{"explode", "--help"}},
		{"reserve", "", []string{"--reserve=much"}, []string{"--reserve", "much", "10Gi"}},
		{"negative reserve", "", []string{"--reserve=-1Gi"}, []string{"--reserve", "-1Gi"}},
		{"overcommit", "", []string{"--overcommit=0"}, []string{"--overcommit"}},
		{"directory mode", "", []string{"--directory-mode=rwx"}, []string{"--directory-mode", "rwx"}},
		{"reclaim policy", "PV_RECLAIM_POLICY=Recycle", nil, []string{"PV_RECLAIM_POLICY", "Recycle", "Delete", "Retain"}},
		{"kubeconfig", "", []string{"--kubeconfig=" + dir + "/absent"}, []string{dir + "/absent"}},
		{"address", "", []string{"--http-address=127.0.0.1:no"}, []string{"--http-address"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(env.Agent, append([]string{"--kubeconfig=" + env.Kubeconfig, "--http-address="}, test.flags...)...)
			cmd.Env = []string{"NODE_NAME=node-01", "PV_DIR=" + dir + "/pool", test.variable}
			var out, words strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &words
			_ = cmd.Run() // the exit code tells
			if code, want := cmd.ProcessState.ExitCode(), cmp.Or(exit[test.name], 2); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(words.String()), "\n"), func(line string) bool {
				return strings.Contains(line, `"Starting"`) // the settings were fine so far
			})
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "hostpath-provisioner: ") {
				t.Errorf("stderr: %q, want one line that begins with the program's name", words.String())
			}
			for _, w := range test.words {
				if !regexp.MustCompile(w).MatchString(words.String()) {
					t.Errorf("stderr %q does not say %q", words.String(), w)
				}
			}
			if out.Len() > 0 {
				t.Errorf("stdout: %q, want nothing", out.String())
			}
		})
	}
	t.Cleanup(func() {
		if after := s.Tree(filepath.Dir(dir)); after != before {
			t.Errorf("something was made:\n%s\nbefore:\n%s", after, before)
		}
		if _, err := os.Stat("/etc/pool"); err == nil {
			t.Error("/etc/pool was made")
		}
	})
}

func TestHelp(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(env.Agent, "--help").Output()
	if err != nil {
		t.Errorf("--help: %v, want exit code 0", err)
	}
	for _, word := range []string{"NODE_NAME", "PV_DIR", "USE_NAMING_PREFIX", "PV_RECLAIM_POLICY", "--reserve", "--kubeconfig",
		"/healthz", "/readyz", "/metrics", "provisionOnNode", "inspect"} {
		if !strings.Contains(string(out), word) {
			t.Errorf("--help does not say %s", word)
		}
	}
}

// An agent ends soon after SIGTERM also while it has work to do; Agent.Stop measures it.
func TestStopAtWork(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	for range 20 {
		s.Create(harness.Claim{Node: a.Node.Name})
	}
	a.Stop()
	if a.Alive() {
		t.Error("the agent still runs")
	}
	if !strings.Contains(a.Log(), "Starting") {
		t.Error("the agent's log does not say that it starts")
	}
}
