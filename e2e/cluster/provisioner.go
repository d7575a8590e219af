package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// The release of the provisioner sidecar. Not every module proxy has the version of the snapshot
// client that it names; this one has the same API.
const (
	provisionerPath    = "github.com/kubernetes-csi/external-provisioner/v6"
	provisionerVersion = "v6.3.0"

	snapshotClient        = "github.com/kubernetes-csi/external-snapshotter/client/v8"
	snapshotClientVersion = "v8.6.0"
)

// ProvisionerImage is the sidecar's name in manifests/csi-sidecars. The image is imported, not
// pulled.
const ProvisionerImage = "registry.k8s.io/sig-storage/csi-provisioner:" + provisionerVersion

// BuildProvisioner returns the standard provisioner sidecar, a static program. If it is not in the
// cache, BuildProvisioner compiles it, which takes minutes. Several processes may call it at once:
// one builds, the others wait.
func BuildProvisioner(ctx context.Context, log io.Writer) (string, error) {
	return cachedProgram(ctx, log, "csi-provisioner", provisionerVersion, compileProvisioner)
}

func compileProvisioner(ctx context.Context, src, program string) error {
	edited, err := moduleFile(ctx, src, provisionerPath+"@"+provisionerVersion)
	if err != nil {
		return err
	}
	text, err := provisionerModule(edited)
	if err != nil {
		return err
	}
	if err := writeFile(src, "go.mod", text); err != nil {
		return err
	}
	flags := "-s -w -X main.version=" + provisionerVersion
	_, err = goCommand(ctx, src, "build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", program,
		provisionerPath+"/cmd/csi-provisioner")
	return err
}

// provisionerModule writes the go.mod of a module from which the sidecar can be built. edited is
// the sidecar's own, as `go mod edit -json` prints it; its replacements, all of Kubernetes'
// libraries, are repeated here.
func provisionerModule(edited []byte) (string, error) {
	var mod goMod
	if err := json.Unmarshal(edited, &mod); err != nil {
		return "", fmt.Errorf("go.mod of %s: %w", provisionerPath, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module wrapper\n\ngo %s\n\nrequire %s %s\n\n", mod.Go, provisionerPath, provisionerVersion)
	for _, r := range mod.Replace {
		if r.New.Version == "" {
			return "", fmt.Errorf("go.mod of %s: do not know how to follow the replacement of %s by %s",
				provisionerPath, r.Old.Path, r.New.Path)
		}
		fmt.Fprintf(&b, "replace %s => %s %s\n", strings.TrimSpace(r.Old.Path+" "+r.Old.Version), r.New.Path, r.New.Version)
	}
	fmt.Fprintf(&b, "replace %s => %[1]s %s\n", snapshotClient, snapshotClientVersion)
	return b.String(), nil
}
