package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Down ends the cluster in dir and removes everything that it created on the machine: processes,
// mounts, network interfaces, control groups, directories, kernel settings. It ends only processes
// that the cluster recorded and those in its control groups. It also removes what a failed Up or a
// restart of the machine left. It does nothing if there is no cluster. An empty dir means
// DefaultStateDir.
func Down(dir string, log io.Writer) error {
	if dir == "" {
		dir = DefaultStateDir()
	}
	say := NewProgress(log)
	unlock, err := lockState(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := readState(dir); errors.Is(err, os.ErrNotExist) {
		say.Say("nothing is up in %s", dir)
		return nil
	}
	err = say.During("ending the cluster", func() error { return takeDown(dir) })
	if err != nil {
		return fmt.Errorf("cluster in %s: %w", dir, err)
	}
	say.Say("down; nothing is left in %s", dir)
	return nil
}

// takeDown undoes every step of Up that is in its state. It deletes the state last, so that it can
// be repeated.
func takeDown(dir string) error {
	s, err := readState(dir)
	if err != nil {
		return err
	}
	plane := &ControlPlane{settings: settings{Dir: filepath.Join(dir, "control-plane")}}
	var errs []error
	for i, ns := range s.Nodes {
		errs = append(errs, newNode(i, ns, dir, plane).Stop())
	}
	errs = append(errs, plane.Stop())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err = errors.Join(removeLinks(s.Links), removeCgroup(cgroupName), restoreSysctls(s.Sysctls), unmountBelow(dir))
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(s.Dirs) {
		_ = os.Remove(d) // a directory with other files stays
	}
	return os.RemoveAll(dir)
}

// unmountBelow unmounts what tests mounted on the host below dir, the innermost first. The nodes'
// own mounts disappear with their namespaces. After an error nothing may be removed: a removal
// would reach through a mount.
func unmountBelow(dir string) error {
	for {
		data, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			return err
		}
		targets := mountsBelow(dir, string(data))
		if len(targets) == 0 {
			return nil
		}
		last := targets[len(targets)-1]
		if err := syscall.Unmount(last, 0); err != nil {
			return fmt.Errorf("unmount %s: %w; end what uses it and try again", last, err)
		}
	}
}

// mountsBelow lists the mount points at or below dir from the text of /proc/mounts, in the order in
// which they were made.
func mountsBelow(dir, mounts string) []string {
	// The kernel writes these characters as octal numbers.
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var targets []string
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if target := unescape.Replace(fields[1]); target == dir || strings.HasPrefix(target, dir+"/") {
			targets = append(targets, target)
		}
	}
	return targets
}
