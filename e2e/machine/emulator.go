package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const emulatorName = "qemu-system-x86_64"

// power starts the virtual machine. If it is not detached, it ends with this process, however that ends.
func (m *Machine) power() error {
	console, err := os.OpenFile(filepath.Join(m.dir, "emulator.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer console.Close()
	// Other tests may run beside it: it would take all CPUs, and can wait.
	cmd := exec.Command("nice", append([]string{"-n", "5", emulatorName}, m.arguments()...)...)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !m.settings.Detach {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error)
	go func() {
		// The death of this thread would be that of the virtual machine, and of whatever else it started before. Go ends the
		// thread of a goroutine that ends without unlocking it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- cmd.Start()
		_ = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start the virtual machine: %w", err)
	}
	return os.WriteFile(m.pidFile(), fmt.Appendln(nil, cmd.Process.Pid), 0o600)
}

func (m *Machine) pidFile() string { return filepath.Join(m.dir, "emulator.pid") }

// running returns the process of the virtual machine, or 0 if it has ended.
func (m *Machine) running() int {
	text, _ := os.ReadFile(m.pidFile())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(line), m.dir) { // the number may be another's now
		return 0
	}
	return pid
}

// cut ends the virtual machine at once. It does nothing if it has ended.
func (m *Machine) cut() error {
	for range 100 {
		pid := m.running()
		if pid == 0 {
			return nil
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the process of the virtual machine does not end")
}

// awaitEnd waits until the virtual machine has ended by itself.
func (m *Machine) awaitEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	for m.running() != 0 {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the machine does not end: %w\nits console:\n%s", ctx.Err(), m.Console())
		}
	}
	return nil
}

func (m *Machine) arguments() []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// In software everywhere: half-working hardware virtualization, as inside some virtual machines, ends qemu.
		"-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2560",
		"-kernel", m.file("vmlinuz"), "-initrd", m.file("initrd"),
		"-append", "root=/dev/vda rw console=ttyS0 security=selinux selinux=1 net.ifnames=0 panic=-1",
		"-chardev", "file,append=on,id=console,path=" + m.file("console.log"), "-serial", "chardev:console",
		"-netdev", fmt.Sprintf("user,id=net,net=%s,host=%s,dhcpstart=%s,hostfwd=tcp:127.0.0.1:%d-%s:22", network, hostIP, guestIP, m.settings.SSHPort, guestIP),
		"-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
	}
	for _, disk := range disks {
		// unsafe: a flush need not reach the real disk, for the host stays up.
		args = append(args, "-drive", "if=virtio,format=raw,cache=unsafe,file="+m.file(disk.name+".img"))
	}
	return args
}
