// Package vm runs one program in a small virtual machine: the distribution's kernel, real disks
// made of image files, and nothing else. It is for what the kernel of the machine at hand cannot
// do, and for what should not be done to it: filesystems with project quota, a power cut.
//
//	err := vm.Run(ctx, vm.Machine{
//		Disks:   []string{"xfs.img"},      // /dev/vda
//		Modules: []string{"xfs"},          // what is not built in, with what they need
//		Program: "limit.test",             // static: go test -c with CGO_ENABLED=0
//		Args:    []string{"-test.v"},
//		Output:  os.Stdout,
//	})
//
// The program is root, in an empty memory filesystem with /proc, /sys, /dev and /tmp, and with
// busybox as /bin/busybox. Run returns nil if it exited with 0, and the machine is off when Run
// returns. A machine boots in about five seconds, without hardware virtualization.
//
// To cut the power, cancel the context: what the machine had written to its disks stays in the
// image files, what was only in its memory is gone. The next Run with the same disks finds them
// like that. Files:
//
//	vm.go         Machine, Run
//	platform.go   what differs between amd64 and arm64
//	kernel.go     fetches the kernel, once, into the cache of the tests
//	modules.go    which modules a module needs
//	initramfs.go  what the machine boots into
package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Machine is what Run boots. It needs no root and no KVM.
type Machine struct {
	// Disks are raw image files. The first is /dev/vda in the machine, the second /dev/vdb, and so
	// on. They are written to.
	Disks []string
	// DiskOptions are further options of qemu's for Disks, such as "werror=stop".
	DiskOptions string
	// Monitor is the path of the socket at which qemu speaks QMP while the machine runs; none if it
	// is empty. The first of Disks is virtio0 there.
	Monitor string
	// SCSI are disks of a SCSI controller, /dev/sda and so on, in the order of the list. They are
	// written to.
	SCSI []SCSIDisk
	// Modules are loaded before the program starts, in this order, each after those it needs. One
	// that is built into the kernel does no harm.
	Modules []string
	// Arch is amd64, the default, or arm64. Both run in software, wherever this is not another
	// architecture's machine.
	Arch string
	// Program is a static executable, busybox where it is empty. Args and Env are its arguments and
	// its environment.
	Program string
	Args    []string
	Env     []string
	// Output gets what the program writes to its standard output and error, as it comes. nil drops
	// it.
	Output io.Writer
	// Log gets a line for each step of ours that may take long. nil drops them.
	Log io.Writer
	// Memory in MiB; 1024 if 0.
	Memory int
}

// A SCSIDisk is a disk with the marks that tell it from others. Two with one image and one WWN are
// one disk by two paths.
type SCSIDisk struct {
	// Image is a raw image file.
	Image string
	// Serial is the serial number; the disk reports none if it is empty. WWN is a NAA identifier;
	// none if it is 0.
	Serial string
	WWN    uint64
}

// ExitError is the program's own failure, in a machine that ran as it should.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("the program exited with %d", e.Code) }

// defaultTimeout ends a machine whose context has no deadline.
const defaultTimeout = 5 * time.Minute

// Run boots the machine, runs the program, and turns the machine off. It is killed when the context
// ends, and after five minutes where the context has no deadline.
//
// The error is an *ExitError where the program failed. Anything else (a kernel panic, a hang, a
// program that cannot be started) comes with the last lines of the kernel's console.
func Run(ctx context.Context, m Machine) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	p, err := m.platform()
	if err != nil {
		return err
	}
	if err := m.check(p); err != nil {
		return err
	}
	kernel, err := fetchKernel(ctx, p, m.Log)
	if err != nil {
		return err
	}
	if m.Program == "" {
		m.Program = kernel.busybox
	}
	if err := p.static(m.Program); err != nil {
		return fmt.Errorf("program of the virtual machine: %w", err)
	}
	dir, err := os.MkdirTemp("", "vm-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeInitramfs(filepath.Join(dir, "initramfs"), p, kernel, m); err != nil {
		return err
	}
	return m.boot(ctx, p, kernel, dir)
}

// check finds what is missing before anything is fetched.
func (m Machine) check(p platform) error {
	if _, err := exec.LookPath(p.emulator); err != nil {
		return fmt.Errorf("%w; run e2e/packages.sh %s", err, p.pkg)
	}
	images := slices.Clone(m.Disks)
	for _, disk := range m.SCSI {
		images = append(images, disk.Image)
	}
	for _, disk := range images {
		if _, err := os.Stat(disk); err != nil {
			return fmt.Errorf("disk of the virtual machine: %w", err)
		}
	}
	return nil
}

func (m Machine) boot(ctx context.Context, p platform, k kernel, dir string) error {
	console, code := filepath.Join(dir, "console"), filepath.Join(dir, "code")
	cmd := exec.CommandContext(ctx, p.emulator, m.arguments(p, k, dir, console, code)...)
	var complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = m.Output, &complaints
	// Killed with us, however we end.
	cmd.SysProcAttr = dieWithParent()
	// Its death is tied to the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	say(m.Log, "booting a virtual machine for %s", filepath.Base(m.Program))
	err := cmd.Run()
	text, _ := os.ReadFile(code)
	if n, bad := strconv.Atoi(strings.TrimSpace(string(text))); bad == nil && n != 0 {
		return &ExitError{Code: n}
	} else if bad == nil && err == nil {
		return nil
	}
	log, _ := os.ReadFile(console)
	if ctx.Err() != nil {
		err = fmt.Errorf("the virtual machine was killed after %s: %w", time.Since(began).Round(time.Second), ctx.Err())
	} else {
		err = errors.Join(errors.New("the virtual machine ended before its program"), err)
	}
	return fmt.Errorf("%w\n%s%s", err, complaints.Bytes(), tail(string(log)))
}

func (m Machine) arguments(p platform, k kernel, dir, console, code string) []string {
	memory := m.Memory
	if memory == 0 {
		memory = 1024
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// In software everywhere: half-working hardware virtualization, as inside some virtual
		// machines, ends qemu.
		"-accel", "tcg,thread=multi",
		"-smp", "2", "-m", strconv.Itoa(memory),
		"-kernel", k.image, "-initrd", filepath.Join(dir, "initramfs"),
		// A panic reboots at once, which -no-reboot makes the end.
		"-append", "console=" + p.console + " loglevel=5 panic=-1 random.trust_cpu=on",
		"-chardev", "file,id=console,path=" + console,
		"-chardev", "stdio,id=output,signal=off",
		"-chardev", "file,id=code,path=" + code,
	}
	args = append(args, p.qemu...)
	for _, disk := range m.Disks {
		// unsafe: a flush need not reach the real disk, for the real machine stays up.
		drive := "if=virtio,format=raw,cache=unsafe,file=" + strings.ReplaceAll(disk, ",", ",,")
		if m.DiskOptions != "" {
			drive += "," + m.DiskOptions
		}
		args = append(args, "-drive", drive)
	}
	if m.Monitor != "" {
		args = append(args, "-chardev", "socket,id=qmp,server=on,wait=off,path="+strings.ReplaceAll(m.Monitor, ",", ",,"),
			"-mon", "chardev=qmp,mode=control")
	}
	if len(m.SCSI) > 0 {
		args = append(args, "-device", "virtio-scsi-pci,id=scsi")
	}
	for i, disk := range m.SCSI {
		args = append(args, disk.arguments(i)...)
	}
	return args
}

func (d SCSIDisk) arguments(target int) []string {
	drive := fmt.Sprintf("scsi%d", target)
	// share-rw: another path may lead to the image.
	device := fmt.Sprintf("scsi-hd,bus=scsi.0,scsi-id=%d,drive=%s,share-rw=on", target, drive)
	if d.Serial != "" {
		device += ",serial=" + d.Serial
	}
	if d.WWN != 0 {
		device += fmt.Sprintf(",wwn=%#x", d.WWN)
	}
	return []string{
		"-drive", "if=none,format=raw,cache=unsafe,id=" + drive + ",file=" + strings.ReplaceAll(d.Image, ",", ",,"),
		"-device", device,
	}
}

// tail is the end of the console, for an error message, and what the kernel said of a panic.
func tail(console string) string {
	var panicked string
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(console, "\r", "")), "\n")
	for _, line := range lines {
		if _, reason, ok := strings.Cut(line, "Kernel panic - "); ok {
			panicked = "kernel panic: " + reason + "\n"
		}
	}
	if len(lines) > 25 {
		lines = lines[len(lines)-25:]
	}
	return panicked + "the end of its console:\n  " + strings.Join(lines, "\n  ")
}

func say(log io.Writer, format string, args ...any) {
	if log != nil {
		fmt.Fprintf(log, format+"\n", args...)
	}
}
