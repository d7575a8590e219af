package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// What every machine needs to see its disks.
var ownModules = []string{"virtio_pci", "virtio_blk"}

// writeInitramfs writes what the machine boots into: busybox, modules, the program, and a script
// that starts it.
func writeInitramfs(path string, p platform, k kernel, m Machine) error {
	modules, err := k.moduleFiles(append(ownModules, m.Modules...))
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	a := &archive{w: bufio.NewWriter(f)}
	for _, dir := range []string{"bin", "dev", "modules", "proc", "program", "sys", "tmp", "mnt"} {
		a.entry(dir, 0o40755, 0, strings.NewReader(""), 0)
	}
	// The kernel opens it for the first process before anything is mounted.
	a.entry("dev/console", 0o20600, 5<<8|1, strings.NewReader(""), 0)
	a.file("bin/busybox", k.busybox)
	a.file(guestPath(m), m.Program)
	for _, module := range modules {
		a.file("modules/"+filepath.Base(module), module)
	}
	script := script(p, modules, m)
	a.entry("init", 0o100755, 0, strings.NewReader(script), int64(len(script)))
	return a.close()
}

// script is the machine's first process. The console is the kernel's; the program has the second
// serial port, and its exit code goes to the third.
func script(p platform, modules []string, m Machine) string {
	var b strings.Builder
	b.WriteString(`#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b mount -t tmpfs tmp /tmp
`)
	for _, module := range modules {
		fmt.Fprintf(&b, "$b insmod /modules/%s || echo no module %[1]s\n", filepath.Base(module))
	}
	b.WriteString("$b stty -F /dev/" + p.output + " raw\ncd /tmp\nexport HOME=/tmp TMPDIR=/tmp PATH=/bin VIRTUAL_MACHINE=e2e/vm\n")
	for _, variable := range m.Env {
		fmt.Fprintf(&b, "export %s\n", quote(variable))
	}
	b.WriteString(quote("/" + guestPath(m)))
	for _, arg := range m.Args {
		b.WriteString(" " + quote(arg))
	}
	fmt.Fprintf(&b, " </dev/null >/dev/%s 2>&1\necho $? >/dev/%s\n$b sync\n$b poweroff -f\n", p.output, p.code)
	return b.String()
}

// guestPath keeps the program's name: busybox and its like go by it.
func guestPath(m Machine) string { return "program/" + filepath.Base(m.Program) }

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// archive writes the format "newc" that the kernel unpacks:
// Documentation/driver-api/early-userspace/buffer-format.rst.
type archive struct {
	w     *bufio.Writer
	inode int
	err   error // the first one
}

// file adds an executable file.
func (a *archive) file(name, from string) {
	f, err := os.Open(from)
	if err == nil {
		defer f.Close()
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			a.entry(name, 0o100755, 0, f, info.Size())
		}
	}
	if a.err == nil {
		a.err = err
	}
}

// entry adds an inode of this mode; device is its number where it is one.
func (a *archive) entry(name string, mode, device int, content io.Reader, size int64) {
	if a.err != nil {
		return
	}
	a.inode++
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, device>>8, device&0xff, len(name)+1, 0, name)
	if _, a.err = a.w.WriteString(header + padding(len(header))); a.err != nil {
		return
	}
	var n int64
	if n, a.err = io.Copy(a.w, content); a.err == nil && n != size {
		a.err = fmt.Errorf("%s: %d bytes instead of %d", name, n, size)
	}
	if a.err == nil {
		_, a.err = a.w.WriteString(padding(int(n % 4)))
	}
}

func padding(n int) string { return "\x00\x00\x00"[:(4-n%4)%4] }

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, strings.NewReader(""), 0)
	if a.err == nil {
		a.err = a.w.Flush()
	}
	if a.err != nil {
		return fmt.Errorf("write the initramfs: %w", a.err)
	}
	return nil
}
