package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Conformance are the end-to-end tests of one Kubernetes version and what their pods run.
type Conformance struct {
	// Test is the program e2e.test.
	Test string

	agnhost string
}

// conformancePackages are the programs by their package in Kubernetes.
var conformancePackages = map[string]string{
	"e2e.test": "k8s.io/kubernetes/test/e2e",
	"agnhost":  "k8s.io/kubernetes/test/images/agnhost",
}

// BuildConformance returns the end-to-end tests of a Kubernetes version. If they are not in the
// cache, BuildConformance compiles them, which takes minutes. An empty version means DefaultVersion.
// Several processes may call it at once: one builds, the others wait.
func BuildConformance(ctx context.Context, version string, log io.Writer) (c Conformance, err error) {
	if version == "" {
		version = DefaultVersion
	}
	if _, err := minorVersion(version); err != nil {
		return c, err
	}
	cache, err := DefaultCacheDir()
	if err != nil {
		return c, err
	}
	dir := filepath.Join(cache, "conformance-"+version)
	c = Conformance{Test: filepath.Join(dir, "e2e.test"), agnhost: filepath.Join(dir, "agnhost")}
	if c.complete() {
		return c, nil
	}
	say := NewProgress(log)
	// Another lock than that of Kubernetes, so that neither build waits for the other.
	unlock, err := lockCache(ctx, dir, say)
	if err != nil {
		return c, err
	}
	defer unlock()
	if c.complete() {
		return c, nil
	}
	what := "building the end-to-end tests of Kubernetes " + version
	say.Say("%s", what)
	if err := say.During(what, func() error { return compileConformance(ctx, dir, version) }); err != nil {
		return c, fmt.Errorf("build the end-to-end tests of kubernetes %s: %w", version, err)
	}
	return c, nil
}

func (c Conformance) complete() bool {
	for _, program := range []string{c.Test, c.agnhost} {
		if _, err := os.Stat(program); err != nil {
			return false
		}
	}
	return true
}

// compileConformance puts only complete files into dir.
func compileConformance(ctx context.Context, dir, version string) error {
	src, err := os.MkdirTemp(dir, "src-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(src) }()
	if err := (Binaries{Version: version}).writeWrapper(ctx, src); err != nil {
		return err
	}
	for name, pkg := range conformancePackages {
		args := []string{"build"}
		if strings.HasSuffix(name, ".test") {
			args = []string{"test", "-c"}
		}
		out := filepath.Join(src, name)
		args = append(args, "-mod=mod", "-trimpath", "-ldflags", versionFlags(version), "-o", out, pkg)
		if _, err := goCommand(ctx, src, args...); err != nil {
			return err
		}
		if err := os.Rename(out, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// storageImages are the images of the end-to-end tests that pods of the storage tests run.
// jessie-dnsutils is that of several pods with one volume, which do not use its tools.
var storageImages = []string{"agnhost", "busybox", "jessie-dnsutils", "nginx"}

// WriteImages writes the archives of the images that the storage tests use, under the names that the
// tests have for them, and returns their paths. Each image is a busybox; agnhost has its program
// beside it, as the released one has tools of a distribution.
func (c Conformance) WriteImages(ctx context.Context, dir string) (archives []string, err error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("%w; run e2e/packages.sh busybox-static", err)
	}
	names, err := exec.CommandContext(ctx, c.Test, "--list-images").Output()
	if err != nil {
		return nil, fmt.Errorf("list the images of the end-to-end tests: %w", err)
	}
	for _, name := range strings.Fields(string(names)) {
		base, _, _ := strings.Cut(path.Base(name), ":")
		if !strings.Contains(name, "/e2e-test-images/") || !slices.Contains(storageImages, base) {
			continue
		}
		m, err := busyboxImage(busybox)
		m.Name = name
		if base == "agnhost" && err == nil {
			err = m.add(c.agnhost)
		}
		archive := filepath.Join(dir, strings.ReplaceAll(path.Base(name), ":", "-")+".tar")
		if err := errors.Join(err, WriteImage(m, archive)); err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// add puts a static program into the image, which then starts it.
func (m *Image) add(program string) error {
	data, err := readStatic(program)
	if err != nil {
		return err
	}
	target := "/" + filepath.Base(program)
	m.Files = append(m.Files, ImageFile{Path: target, Mode: 0o755, Data: data})
	m.Entrypoint, m.Command = []string{target}, []string{"pause"}
	return nil
}
