package machine

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

//go:embed image.sh
var recipe []byte

// image returns the directory with root.img, vmlinuz and initrd. If it is not in the cache, image
// makes it. Several processes may call it at once: each makes one, and the first one's stays.
func image(ctx context.Context, progress *cluster.Progress) (string, error) {
	cache, err := cluster.DefaultCacheDir()
	if err != nil {
		return "", err
	}
	// Another recipe makes another image.
	dir := filepath.Join(cache, fmt.Sprintf("machine-%.6x", sha256.Sum256(recipe)))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "machine-making-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	const what = "making the machine's image, once"
	progress.Say(what + "; this takes minutes")
	cmd := exec.CommandContext(ctx, "sh", "-s", tmp)
	cmd.Stdin = bytes.NewReader(recipe)
	var out []byte
	err = progress.During(what, func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make the machine's image: %w\n%s", err, tail(out))
	}
	err = os.Rename(tmp, dir)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", err
	}
	return dir, nil
}
