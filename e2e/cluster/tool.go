package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Tool is another project's program, which is built from its module.
type Tool struct{ Name, Package, Version string }

// Path returns the path of the program in the cache, and builds it where it is missing. The first
// build of a large one takes minutes.
func (t Tool) Path(ctx context.Context) (string, error) {
	cache, err := DefaultCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tools", t.Name+"-"+t.Version)
	file := filepath.Join(dir, t.Name)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	install := exec.CommandContext(ctx, "go", "install", t.Package+"@"+t.Version)
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", t.Name, err, out)
	}
	return file, nil
}
