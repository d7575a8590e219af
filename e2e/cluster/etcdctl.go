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
		err := writeFile(src, "go.mod", "module wrapper\n\ngo 1.26.0\n\nrequire "+etcdctlPath+" "+etcdVersion+"\n")
		if err == nil {
			_, err = goCommand(ctx, src, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", program, etcdctlPath)
		}
		return err
	})
}
