package main

import (
	"context"
	"os"
	"path/filepath"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// image returns the size of the unpacked image: the agent as it is released, and nothing else.
func (l *lab) image(_ context.Context, r *report) error {
	m, err := cluster.BinaryImage("bench:latest", l.env.Agent)
	if err != nil {
		return err
	}
	file := filepath.Join(l.env.Dir, "image.tar")
	if err := cluster.WriteImage(m, file); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	r.bound("image", "MB", float64(info.Size())/1e6, 40)
	return os.Remove(file)
}
