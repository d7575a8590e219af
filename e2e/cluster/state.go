package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// DefaultStateDir returns HPP_E2E_STATE, or a directory below /var/lib. It must not be on a tmpfs,
// because containerd's overlay mounts need a real disk, and its path must be short, because it has
// sockets.
func DefaultStateDir() string {
	if dir := os.Getenv("HPP_E2E_STATE"); dir != "" {
		return filepath.Clean(dir)
	}
	return "/var/lib/hostpath-provisioner-e2e"
}

// state is what another process needs to end a cluster. Each field is written before the step that
// it undoes, so that a cluster of an incomplete Up can be removed.
type state struct {
	Version string            `json:"version"`
	Boot    string            `json:"boot"`
	Ready   bool              `json:"ready"`
	Nodes   []nodeState       `json:"nodes"`
	Dirs    []string          `json:"dirs"`    // directories made on the host, parents first
	Links   []string          `json:"links"`   // network interfaces
	Sysctls map[string]string `json:"sysctls"` // kernel settings as they were before
}

type nodeState struct {
	Name     string `json:"name"`
	Hostname string `json:"hostname"`
}

func statePath(dir string) string { return filepath.Join(dir, "cluster.json") }

func readState(dir string) (*state, error) {
	data, err := os.ReadFile(statePath(dir))
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read %s: %w", statePath(dir), err)
	}
	return s, nil
}

func (s *state) save(dir string) error { return writeJSON(statePath(dir), s) }

// writeJSON replaces the file by a rename, so that a reader sees the old content or the new.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// bootID changes when the machine restarts: process IDs recorded under another one mean nothing.
func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// lockState excludes other calls of Up and Down for the same directory until unlock is called. The
// lock is on the parent directory, because the state directory is created and removed, and a lock
// file beside it would stay.
func lockState(dir string) (unlock func(), err error) {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	unlock, err = lock(parent)
	if err != nil {
		return nil, fmt.Errorf("state directory %s: another up or down below %s is at work; wait for it: %w", dir, parent, err)
	}
	return unlock, nil
}

// Take keeps other tests away from the cluster until give is called, or the process ends: each deploys
// the agent in its own forms, and removes those of the others. The error says what to do if tests of
// another process run.
func (c *Cluster) Take() (give func(), err error) {
	give, err = lock(c.dir)
	if err != nil {
		return nil, fmt.Errorf("the cluster in %s: other tests use it; wait for them: %w", c.dir, err)
	}
	return give, nil
}

// lock locks a file or directory, which exists, for the process.
func lock(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

const (
	tmpfsMagic   = 0x01021994
	overlayMagic = 0x794c7630
)

func filesystemMagic(path string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0
	}
	return int64(st.Type) //nolint:unconvert // it has another type on other architectures
}
