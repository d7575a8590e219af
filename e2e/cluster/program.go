package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// cachedProgram returns the path of a program in the cache. If it is not there, compile builds it
// as the file program, in an empty directory src. Several processes may call cachedProgram at once:
// one builds, the others wait.
func cachedProgram(ctx context.Context, log io.Writer, name, version string,
	compile func(ctx context.Context, src, program string) error) (string, error) {
	cache, err := DefaultCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name+"-"+version)
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	say := NewProgress(log)
	// Another lock than that of Kubernetes, so that neither build waits for the other.
	unlock, err := lockCache(ctx, dir, say)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	src, err := os.MkdirTemp(dir, "src-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(src) }()
	what, built := "building "+name+" "+version, filepath.Join(src, name)
	say.Say("%s", what)
	err = say.During(what, func() error { return compile(ctx, src, built) })
	if err == nil {
		err = os.Rename(built, program)
	}
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return program, nil
}
