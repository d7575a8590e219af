package vm

import (
	"cmp"
	"debug/elf"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// platform is what differs between machines of two architectures.
type platform struct {
	arch     string
	elf      elf.Machine
	emulator string // a program of the package
	pkg      string
	// kernel is the package of the distribution's smallest kernel that has virtio disks and serial
	// ports. It depends on the package of the current version.
	kernel string
	// qemu are arguments: the board and its processor, and the serial ports console, output and
	// code, which the machine's kernel has under these names.
	qemu                  []string
	console, output, code string
}

var platforms = map[string]platform{
	"amd64": {
		arch: "amd64", elf: elf.EM_X86_64, emulator: "qemu-system-x86_64", pkg: "qemu-system-x86", kernel: "linux-image-cloud-amd64",
		qemu:    []string{"-cpu", "max", "-serial", "chardev:console", "-serial", "chardev:output", "-serial", "chardev:code"},
		console: "ttyS0", output: "ttyS1", code: "ttyS2",
	},
	"arm64": {
		arch: "arm64", elf: elf.EM_AARCH64, emulator: "qemu-system-aarch64", pkg: "qemu-system-arm", kernel: "linux-image-cloud-arm64",
		// The board has one serial port; the others are on its PCI bus.
		qemu: []string{"-machine", "virt", "-cpu", "neoverse-n1", "-serial", "chardev:console",
			"-device", "pci-serial,chardev=output", "-device", "pci-serial,chardev=code"},
		console: "ttyAMA0", output: "ttyS0", code: "ttyS1",
	},
}

// platform returns the machine's, or an error if there is none for its architecture.
func (m Machine) platform() (platform, error) {
	p, ok := platforms[cmp.Or(m.Arch, "amd64")]
	if !ok {
		return p, fmt.Errorf("no virtual machine for the architecture %s; there are %s", m.Arch,
			strings.Join(slices.Sorted(maps.Keys(platforms)), " and "))
	}
	return p, nil
}

// native is whether it is that of the machine at hand.
func (p platform) native() bool { return p.arch == runtime.GOARCH }

// static returns an error unless the file is an executable of this architecture that needs no other
// file.
func (p platform) static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for _, part := range f.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static; build it with CGO_ENABLED=0", path)
		}
	}
	if f.Machine != p.elf {
		return fmt.Errorf("%s is for %s, and the machine is for %s; build it with GOARCH=%s", path, f.Machine, p.elf, p.arch)
	}
	return nil
}
