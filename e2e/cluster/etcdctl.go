package cluster

import (
	"context"
	"io"
)

const etcdctlPath = "go.etcd.io/etcd/etcdctl/v3"

// BuildEtcdctl returns etcdctl of the version of the clusters' etcd. If it is not in the cache,
// BuildEtcdctl compiles it. Several processes may call it at once: one builds, the others wait.
func BuildEtcdctl(ctx context.Context, log io.Writer) (string, error) {
	return cachedProgram(ctx, log, "etcdctl", etcdVersion, func(ctx context.Context, src, program string) error {
		return buildWith(ctx, src, program, etcdctlPath, etcdctlPath, etcdVersion)
	})
}

// buildWith builds a program in a module of its own, in src, which requires one other module: the
// program may need other versions of libraries than this module. what is what to build.
func buildWith(ctx context.Context, src, program, what, module, version string) error {
	err := writeFile(src, "go.mod", "module wrapper\n\ngo 1.26.0\n\nrequire "+module+" "+version+"\n")
	if err == nil {
		_, err = goCommand(ctx, src, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", program, what)
	}
	return err
}
