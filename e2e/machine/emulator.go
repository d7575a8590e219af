package machine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

const emulatorName = "qemu-system-x86_64"

// emulator is the process of the virtual machine.
func (m *Machine) emulator() cluster.Process {
	return cluster.Process{Title: "the virtual machine", Name: "emulator", Dir: m.dir}
}

// power starts the virtual machine. If it is not detached, it ends with this process, however that
// ends. Other tests may run beside it: it would take all CPUs, and can wait.
func (m *Machine) power() error {
	return m.emulator().Start(m.settings.Detach, nil,
		append([]string{"nice", "-n", "5", emulatorName}, m.arguments()...)...)
}

// ended is an error with the emulator's log if the emulator does not run, and nil if it runs.
func (m *Machine) ended() error {
	if _, runs := m.emulator().PID(); runs {
		return nil
	}
	log, _ := os.ReadFile(m.emulator().Log())
	return fmt.Errorf("the virtual machine has ended; its log:\n%s", tail(log))
}

// cut ends the virtual machine at once. It does nothing if it has ended.
func (m *Machine) cut() error { return m.emulator().Stop(0) }

// awaitEnd waits until the virtual machine has ended by itself.
func (m *Machine) awaitEnd(ctx context.Context) error {
	return Poll(ctx, bootTimeout, func() error {
		if pid, runs := m.emulator().PID(); runs {
			return fmt.Errorf("the virtual machine, process %d, has not ended; its console:\n%s", pid, m.Console())
		}
		return nil
	})
}

// Poll calls f every second until it returns nil, the time is over, or the context ends. An error
// is the last of f.
func Poll(ctx context.Context, timeout time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", timeout, err)
		case <-time.After(time.Second):
		}
	}
}

func (m *Machine) arguments() []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// In software everywhere: half-working hardware virtualization, as inside some virtual
		// machines, ends qemu.
		"-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2560",
		"-kernel", m.file("vmlinuz"), "-initrd", m.file("initrd"),
		"-append", "root=/dev/vda rw console=ttyS0 security=selinux selinux=1 net.ifnames=0 panic=-1",
		"-chardev", "file,append=on,id=console,path=" + m.file("console.log"), "-serial", "chardev:console",
		"-netdev", fmt.Sprintf("user,id=net,net=%s,host=%s,dhcpstart=%s,hostfwd=tcp:127.0.0.1:%d-%s:22", network, hostIP,
			guestIP, m.settings.SSHPort, guestIP),
		"-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
	}
	for _, disk := range disks {
		if slices.Contains(m.absent, disk.name) {
			continue
		}
		// unsafe: a flush need not reach the real disk, for the host stays up.
		args = append(args, "-drive", "if=none,format=raw,cache=unsafe,id="+disk.name+",file="+m.file(disk.name+".img"),
			"-device", "virtio-blk-pci,drive="+disk.name+",serial=MY-DISKS-"+disk.name)
	}
	return args
}
