package release

import (
	"context"
	"path/filepath"
	"slices"
)

// names are the programs of an image. The first is the one that it starts.
var names = []string{"hostpath-provisioner", "hostpath-operator"}

// program is a binary for an architecture.
type program struct{ name, arch, file string }

// build builds the programs of each architecture into a directory.
func (r *Release) build(ctx context.Context, dir string) (all []program, err error) {
	for _, arch := range Architectures {
		r.step("build the programs for linux/%s", arch)
		out := filepath.Join(dir, arch)
		if err := r.goBuild(ctx, platform{"linux", arch}, out+"/", names...); err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, program{name: name, arch: arch, file: filepath.Join(out, name)})
		}
	}
	return all, nil
}

// fixed are the settings of the compiler with which programs and tools are the same bytes, whatever the
// machine's own settings are.
var fixed = []string{"CGO_ENABLED=0", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off"}

// goBuild builds programs for a platform into a file, or into a directory whose name ends with a
// slash. `make build` builds with the same flags, but for the state of the checkout and the host's
// settings of the compiler.
func (r *Release) goBuild(ctx context.Context, on platform, out string, programs ...string) error {
	env := slices.Concat(fixed, []string{"GOOS=" + on.os, "GOARCH=" + on.arch, "GOFLAGS="})
	args := []string{
		"-C", r.Root, "build", "-buildvcs=false", "-trimpath", "-tags=grpcnotrace",
		"-ldflags=-s -w -X main.version=" + r.Version, "-o", out,
	}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	_, err := run(ctx, env, "go", args...)
	return err
}
