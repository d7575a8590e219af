package cluster

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Binaries are the programs a cluster consists of, built for one Kubernetes version.
type Binaries struct {
	// Version is the Kubernetes version.
	Version string

	cache string
}

// Path returns the path of a component: kube-apiserver, kube-controller-manager, kube-scheduler,
// kubelet, kubectl, etcd or pause.
func (b Binaries) Path(component string) string {
	switch component {
	case "etcd":
		return filepath.Join(b.cache, "etcd-"+etcdVersion, "etcd")
	case "pause":
		sum := sha256.Sum256([]byte(pauseSource))
		return filepath.Join(b.cache, fmt.Sprintf("pause-%x", sum[:4]), "pause")
	}
	return filepath.Join(b.cache, b.Version, component)
}

var kubernetesComponents = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"}

//go:embed pause/main.go
var pauseSource string

const etcdSource = `package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
`

// DefaultCacheDir returns the directory of built programs: HPP_E2E_CACHE, or a directory of the
// user's cache. It can be deleted; the next Build fills it again.
func DefaultCacheDir() (string, error) {
	if dir := os.Getenv("HPP_E2E_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache directory: %w; set HPP_E2E_CACHE", err)
	}
	return filepath.Join(dir, "hostpath-provisioner-e2e"), nil
}

// Build returns the programs for a Kubernetes version, and compiles those that are not in the cache
// yet, which takes minutes the first time. An empty version means DefaultVersion. Several processes
// may call it at once: one builds, the others wait. It needs the go command and the module proxy
// only when something is missing.
func Build(ctx context.Context, version string, log io.Writer) (Binaries, error) {
	return build(ctx, version, NewProgress(log))
}

// BuildKubelet is Build for the kubelet alone: the result has no other program.
func BuildKubelet(ctx context.Context, version string, log io.Writer) (Binaries, error) {
	return buildSome(ctx, version, []string{"kubelet"}, NewProgress(log))
}

func build(ctx context.Context, version string, say *Progress) (Binaries, error) {
	return buildSome(ctx, version, append([]string{"etcd", "pause"}, kubernetesComponents...), say)
}

func buildSome(ctx context.Context, version string, names []string, say *Progress) (Binaries, error) {
	if version == "" {
		version = DefaultVersion
	}
	if _, err := minorVersion(version); err != nil {
		return Binaries{}, err
	}
	cache, err := DefaultCacheDir()
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{Version: version, cache: cache}
	if len(b.missing(names)) == 0 {
		return b, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return b, fmt.Errorf("build %s: the go command is needed: %w", strings.Join(b.missing(names), ", "), err)
	}
	unlock, err := lockCache(ctx, cache, say)
	if err != nil {
		return b, err
	}
	defer unlock()
	if missing := b.missing(names); len(missing) > 0 {
		err = b.buildAll(ctx, missing, say)
	}
	return b, err
}

// missing returns which of the components are not in the cache. compile puts only complete files
// there.
func (b Binaries) missing(names []string) (missing []string) {
	for _, name := range names {
		if _, err := os.Stat(b.Path(name)); err != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// buildAll compiles the named components: etcd and pause in modules of their own, and those of
// Kubernetes by one go command, which shares the work and links several programs at once.
func (b Binaries) buildAll(ctx context.Context, names []string, say *Progress) error {
	src, err := os.MkdirTemp(b.cache, "src-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(src) }()
	groups := buildGroups(names)
	for i, group := range groups {
		what := fmt.Sprintf("building %s (%d of %d)", strings.Join(group, ", "), i+1, len(groups))
		say.Say("%s", what)
		err := say.During(what, func() error { return b.compile(ctx, filepath.Join(src, group[0]), group) })
		if err != nil {
			return fmt.Errorf("build %s for kubernetes %s: %w", strings.Join(group, ", "), b.Version, err)
		}
	}
	say.Say("built in %s", b.cache)
	return nil
}

// buildGroups splits components into those that one module can build.
func buildGroups(names []string) [][]string {
	var groups [][]string
	var kubernetes []string
	for _, name := range names {
		if slices.Contains(kubernetesComponents, name) {
			kubernetes = append(kubernetes, name)
		} else {
			groups = append(groups, []string{name})
		}
	}
	if len(kubernetes) > 0 {
		groups = append(groups, kubernetes)
	}
	return groups
}

// compile builds components of one group in the module src, and renames them into the cache when
// all are complete.
func (b Binaries) compile(ctx context.Context, src string, group []string) error {
	out := filepath.Join(src, "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	// A path ends with a slash if go shall put several programs into it.
	target, pkgs, flags := filepath.Join(out, group[0]), []string{"."}, "-s -w"
	var err error
	switch group[0] {
	case "etcd":
		err = errors.Join(
			writeFile(src, "go.mod", "module wrapper\n\ngo 1.26.0\n\nrequire go.etcd.io/etcd/server/v3 "+etcdVersion+"\n"),
			writeFile(src, "main.go", etcdSource))
	case "pause":
		err = errors.Join(writeFile(src, "go.mod", "module wrapper\n\ngo 1.26.0\n"), writeFile(src, "main.go", pauseSource))
	default:
		target, pkgs, flags = out+"/", nil, versionFlags(b.Version)
		for _, name := range group {
			pkgs = append(pkgs, "k8s.io/kubernetes/cmd/"+name)
		}
		err = b.writeWrapper(ctx, src)
	}
	if err != nil {
		return err
	}
	args := append([]string{"build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", target}, pkgs...)
	if _, err := goCommand(ctx, src, args...); err != nil {
		return err
	}
	for _, name := range group {
		if err := os.MkdirAll(filepath.Dir(b.Path(name)), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(out, name), b.Path(name)); err != nil {
			return err
		}
	}
	return nil
}

func (b Binaries) writeWrapper(ctx context.Context, src string) error {
	edited, err := moduleFile(ctx, src, "k8s.io/kubernetes@"+b.Version)
	if err != nil {
		return err
	}
	text, err := wrapperModule(b.Version, edited)
	if err != nil {
		return err
	}
	return writeFile(src, "go.mod", text)
}

// moduleFile downloads a module and returns its go.mod, as `go mod edit -json` prints it. The exact
// version is named, never a query: listings of versions may be refused.
func moduleFile(ctx context.Context, src, module string) ([]byte, error) {
	out, err := goCommand(ctx, src, "mod", "download", "-json", module)
	var found struct{ GoMod, Error string }
	switch unreadable := json.Unmarshal(out, &found); {
	case found.Error != "":
		return nil, errors.New(strings.Join(strings.Fields(found.Error), " ")) // the error has several lines
	case err != nil:
		return nil, err
	case unreadable != nil:
		return nil, unreadable
	}
	return goCommand(ctx, src, "mod", "edit", "-json", found.GoMod)
}

// goCommand runs go without the workspace and the flags of the caller's environment.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// Without what only debuggers read, which the linker would drop. Compilers end before it pays to collect garbage.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -gcflags=all=-dwarf=false", "GOWORK=off",
		"GOGC=400")
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return out, fmt.Errorf("go %s: %w:\n%s%s", args[0], err, failed.Stderr, out)
	}
	return out, err
}

func writeFile(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
}

// lockCache waits until no other process builds into the cache.
func lockCache(ctx context.Context, cache string, say *Progress) (unlock func(), err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = say.During("waiting for another build", func() error {
		for {
			err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			if !errors.Is(err, syscall.EWOULDBLOCK) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the cache %s: %w", cache, err)
	}
	return func() { f.Close() }, nil
}
