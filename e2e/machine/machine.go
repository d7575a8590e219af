package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// Options are the options of a machine. Only Dir is required.
type Options struct {
	// Dir is for the disks, the control plane and the logs. It must be empty or absent. Down
	// removes it.
	Dir string
	// Version is the Kubernetes version. Empty means the default of package cluster.
	Version string
	// Detach lets the machine outlive this process. Without it the machine ends with it, however it
	// ends.
	Detach bool
	// Log receives a line for every step. Nil discards them.
	Log io.Writer
}

// Machine is a booted machine and its control plane.
type Machine struct {
	dir      string
	settings settings
	plane    *cluster.ControlPlane
	progress *cluster.Progress
	absent   []string // disks
}

type settings struct {
	SSHPort int
	Detach  bool
}

const (
	bootTimeout = 10 * time.Minute // it takes one on an idle host
	perTry      = 20 * time.Second
)

// Up boots a machine and returns when its node is ready. After an error the directory stays, for
// its logs. The caller must be root, and calls Down.
func Up(ctx context.Context, o Options) (*Machine, error) {
	if err := check(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if entries, _ := os.ReadDir(dir); o.Dir == "" || len(entries) > 0 {
		return nil, fmt.Errorf("the machine's directory %q must be named and empty; run 'machine down', or name another",
			o.Dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m := &Machine{dir: dir, settings: settings{Detach: o.Detach}, progress: cluster.NewProgress(o.Log)}
	if err := m.up(ctx, o); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

// Plane returns the machine's control plane.
func (m *Machine) Plane() *cluster.ControlPlane { return m.plane }

// Load imports an image that runs the program alone.
func (m *Machine) Load(ctx context.Context, name, program string) error {
	image, err := cluster.BinaryImage(name, program)
	if err != nil {
		return err
	}
	archive, w := io.Pipe()
	go func() { w.CloseWithError(image.WriteArchive(w)) }()
	return m.load(ctx, archive)
}

// Write writes a copy of the host's file to a path of the guest, with its mode.
func (m *Machine) Write(ctx context.Context, path, original string) error {
	from, err := os.Open(original)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	_, err = m.feed(ctx, from, fmt.Sprintf("cat >%[1]s && chmod %[2]o %[1]s", path, info.Mode().Perm()))
	return err
}

// Console returns the end of the console's log.
func (m *Machine) Console() string {
	log, _ := os.ReadFile(m.file("console.log"))
	return tail(log)
}

// Reboot reboots the machine by systemctl, and returns when it has booted. The emulator ends with
// the old system and is started again: a kernel that it resets hangs at times.
func (m *Machine) Reboot(ctx context.Context) error {
	before, err := m.bootID(ctx)
	if err != nil {
		return err
	}
	_, _ = m.Run(ctx, "systemctl reboot") // the connection ends with the system
	if err := m.awaitEnd(ctx); err != nil {
		return err
	}
	if err := m.power(); err != nil {
		return err
	}
	return m.AwaitBoot(ctx, before)
}

// PowerCut ends the machine as a power cut does, starts it again, and returns when it has booted.
// What it had not written to its disks is lost.
func (m *Machine) PowerCut(ctx context.Context) error {
	before, err := m.bootID(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(m.cut(), m.power()); err != nil {
		return err
	}
	return m.AwaitBoot(ctx, before)
}

// Unplug takes the named disks away from the next start on, as an administrator does while the
// machine is off. Disks that it does not name are there again, with what they had. It does nothing
// to a machine that runs. The names are those after "MY-DISKS-" in the serial numbers.
func (m *Machine) Unplug(names ...string) { m.absent = names }

func (m *Machine) bootID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, perTry)
	defer cancel()
	id, err := m.Run(ctx, "cat /proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(id), err
}

// AwaitBoot waits until the machine has booted, and not with the given ID of an earlier boot: every
// unit was started, or failed. An error has the end of the console's log. A machine whose emulator
// ends is not awaited any longer.
func (m *Machine) AwaitBoot(ctx context.Context, not string) error {
	err := m.progress.During("booting", func() error {
		var ended error
		err := Poll(ctx, bootTimeout, func() error {
			if ended = m.ended(); ended != nil {
				return nil
			}
			id, err := m.bootID(ctx)
			switch {
			case err != nil:
				return err
			case id == not:
				return errors.New("it is still the boot before")
			}
			_, err = m.Run(ctx, "systemctl is-system-running --wait | grep -E 'running|degraded'")
			return err
		})
		return errors.Join(err, ended)
	})
	if err != nil {
		return fmt.Errorf("the machine has not booted: %w\nits console:\n%s", err, m.Console())
	}
	return nil
}

// Open returns the machine of a directory that another process started with Detach.
func Open(dir string) (*Machine, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	m := &Machine{dir: dir, progress: cluster.NewProgress(nil)}
	data, err := os.ReadFile(m.file("machine.json"))
	if err != nil {
		return nil, fmt.Errorf("no machine is up in %s: %w", dir, err)
	}
	if err := json.Unmarshal(data, &m.settings); err != nil {
		return nil, fmt.Errorf("read %s: %w", m.file("machine.json"), err)
	}
	m.plane, err = cluster.OpenControlPlane(m.file("control-plane"))
	return m, err
}

// Down ends the machine and its control plane, and removes their directory.
func (m *Machine) Down() error {
	if err := m.stop(); err != nil {
		return err
	}
	return os.RemoveAll(m.dir)
}

// stop ends all processes; files stay.
func (m *Machine) stop() error {
	_ = exec.Command("ssh", "-q", "-O", "exit", "-o", "ControlPath="+m.file("ssh"), "root@127.0.0.1").Run()
	err := m.cut()
	if m.plane != nil {
		err = errors.Join(err, m.plane.Stop())
	}
	return err
}

func (m *Machine) file(name string) string { return filepath.Join(m.dir, name) }
