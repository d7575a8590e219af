package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// kernelPackage is Debian's smallest kernel, which has virtio disks and serial ports. It depends on
// the package of the current version.
const kernelPackage = "linux-image-cloud-amd64"

// A kernel is an unpacked kernel package.
type kernel struct {
	image   string // the bootable file
	modules string // the directory with all modules
}

// fetchKernel returns the kernel in the cache, and downloads and unpacks it where it is not there
// yet. Nothing is installed. Several processes may call it at once: each fetches, and the first
// one's stays.
func fetchKernel(ctx context.Context, log io.Writer) (kernel, error) {
	cache, err := cluster.DefaultCacheDir()
	if err != nil {
		return kernel{}, err
	}
	dir := filepath.Join(cache, "vm-"+kernelPackage)
	if k, err := openKernel(dir); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return kernel{}, err
	}
	tmp, err := os.MkdirTemp(cache, "vm-fetch-")
	if err != nil {
		return kernel{}, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := downloadKernel(ctx, tmp, log); err != nil {
		return kernel{}, fmt.Errorf("fetch the kernel of the virtual machine: %w", err)
	}
	err = os.Rename(filepath.Join(tmp, "root"), dir)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return kernel{}, err
	}
	return openKernel(dir)
}

// openKernel finds a kernel in an unpacked package. It is complete if it is there: it comes by a
// rename.
func openKernel(dir string) (kernel, error) {
	images, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	modules, _ := filepath.Glob(filepath.Join(dir, "lib", "modules", "*", "kernel"))
	if len(images) != 1 || len(modules) != 1 {
		return kernel{}, fmt.Errorf("%s: no kernel with its modules; remove that directory, and it is fetched again", dir)
	}
	return kernel{image: images[0], modules: modules[0]}, nil
}

// downloadKernel unpacks the kernel in dir/root. What apt knows of its servers may be nothing, or
// too old.
func downloadKernel(ctx context.Context, dir string, log io.Writer) error {
	err := unpackKernel(ctx, dir, log)
	if err == nil || ctx.Err() != nil {
		return err
	}
	say(log, "apt-get update")
	if _, err := run(ctx, dir, "apt-get", "-q", "update"); err != nil {
		return err
	}
	return unpackKernel(ctx, dir, log)
}

func unpackKernel(ctx context.Context, dir string, log io.Writer) error {
	name, err := currentKernel(ctx, dir)
	if err != nil {
		return err
	}
	say(log, "fetching %s, once", name)
	// The directory is ours alone, and apt's own user cannot write there.
	if _, err := run(ctx, dir, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(files) != 1 {
		return fmt.Errorf("apt-get download %s: %d files", name, len(files))
	}
	_, err = run(ctx, dir, "dpkg-deb", "-x", files[0], "root")
	return err
}

// currentKernel is the package that kernelPackage stands for.
func currentKernel(ctx context.Context, dir string) (string, error) {
	out, err := run(ctx, dir, "apt-cache", "depends", "--important", kernelPackage)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok &&
			strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("apt knows no kernel that %s depends on", kernelPackage)
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out), nil
}

// dieWithParent ends the machine when the thread that started it ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
