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

// A kernel is an unpacked kernel package, with a shell for it.
type kernel struct {
	image   string // the bootable file
	modules string // the directory with all modules
	busybox string
}

// fetchKernel returns the kernel in the cache, and downloads and unpacks it where it is not there
// yet. Nothing is installed. Several processes may call it at once: each fetches, and the first
// one's stays.
func fetchKernel(ctx context.Context, p platform, log io.Writer) (kernel, error) {
	cache, err := cluster.DefaultCacheDir()
	if err != nil {
		return kernel{}, err
	}
	dir := filepath.Join(cache, "vm-"+p.kernel)
	if k, err := p.openKernel(dir); err == nil {
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
	if err := downloadKernel(ctx, p, tmp, log); err != nil {
		return kernel{}, fmt.Errorf("fetch the kernel of the virtual machine: %w", err)
	}
	err = os.Rename(filepath.Join(tmp, "root"), dir)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return kernel{}, err
	}
	return p.openKernel(dir)
}

// openKernel finds a kernel in an unpacked package. It is complete if it is there: it comes by a
// rename. The shell is this machine's, unless it is of another architecture.
func (p platform) openKernel(dir string) (k kernel, err error) {
	images, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	modules, _ := filepath.Glob(filepath.Join(dir, "lib", "modules", "*", "kernel"))
	if len(images) != 1 || len(modules) != 1 {
		return k, fmt.Errorf("%s: no kernel with its modules; remove that directory, and it is fetched again", dir)
	}
	k = kernel{image: images[0], modules: modules[0], busybox: filepath.Join(dir, "bin", "busybox")}
	if p.native() {
		if k.busybox, err = exec.LookPath("busybox"); err != nil {
			return k, fmt.Errorf("%w; run e2e/packages.sh busybox-static", err)
		}
	}
	if err := p.static(k.busybox); err != nil {
		return k, fmt.Errorf("%w; run e2e/packages.sh busybox-static", err)
	}
	return k, nil
}

// downloadKernel unpacks the kernel in dir/root, and busybox if it is of another architecture. What
// apt knows of its servers may be nothing, or too old.
func downloadKernel(ctx context.Context, p platform, dir string, log io.Writer) error {
	err := unpackKernel(ctx, p, dir, log)
	if err == nil || ctx.Err() != nil {
		return err
	}
	say(log, "apt-get update")
	if _, err := p.apt(ctx, dir, "apt-get", "update"); err != nil {
		return err
	}
	return unpackKernel(ctx, p, dir, log)
}

func unpackKernel(ctx context.Context, p platform, dir string, log io.Writer) error {
	name, err := currentKernel(ctx, p, dir)
	if err != nil {
		return err
	}
	names := []string{name}
	if !p.native() {
		names = append(names, "busybox-static:"+p.arch)
	}
	say(log, "fetching %s, once", strings.Join(names, " and "))
	if _, err := p.apt(ctx, dir, "apt-get", append([]string{"download"}, names...)...); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(files) != len(names) {
		return fmt.Errorf("apt-get download %s: %d files", strings.Join(names, " "), len(files))
	}
	for _, file := range files {
		if _, err := run(ctx, dir, "dpkg-deb", "-x", file, "root"); err != nil {
			return err
		}
	}
	return nil
}

// currentKernel is the package that the platform's stands for.
func currentKernel(ctx context.Context, p platform, dir string) (string, error) {
	out, err := p.apt(ctx, dir, "apt-cache", "depends", "--important", p.kernel+":"+p.arch)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok &&
			strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("apt knows no kernel that %s depends on", p.kernel)
}

// apt runs a command of apt. For another architecture its lists are below dir, so that this machine
// does not get to know packages for it.
func (p platform) apt(ctx context.Context, dir, command string, args ...string) (string, error) {
	// The directory is ours alone, and apt's own user cannot write there.
	options := []string{"-q", "-o", "APT::Sandbox::User=root"}
	if !p.native() {
		lists, cache := filepath.Join(dir, "lists"), filepath.Join(dir, "cache")
		if err := errors.Join(os.MkdirAll(lists, 0o755), os.MkdirAll(cache, 0o755)); err != nil {
			return "", err
		}
		options = append(options, "-o", "APT::Architectures::="+p.arch, "-o", "Dir::State::lists="+lists, "-o", "Dir::Cache="+cache)
	}
	return run(ctx, dir, command, append(options, args...)...)
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
