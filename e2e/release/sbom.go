package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The tools of a release.
const (
	sbomTool      = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
	kustomizeTool = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1"
)

// Media types of what refers to an image.
const (
	sbomType       types.MediaType = "application/vnd.cyclonedx+json"
	provenanceType types.MediaType = "application/vnd.in-toto+json"
)

// install installs a tool into the directory bin. Its bytes are in the SBOMs as sums, so they
// depend on nothing but its version.
func install(ctx context.Context, bin, tool string) error {
	_, err := run(ctx, slices.Concat(fixed, []string{"GOBIN=" + bin, "GOFLAGS=-trimpath"}), "go", "install", tool)
	return err
}

// writeSBOMs writes the SBOM of each program, with the licenses of its modules, and adds it to the
// artifacts of its image.
func (r *Release) writeSBOMs(ctx context.Context, programs []program, files string) error {
	r.step("list the modules of the programs")
	bin := filepath.Join(filepath.Dir(files), "bin")
	if err := install(ctx, bin, sbomTool); err != nil {
		return err
	}
	manifest, err := r.Index.IndexManifest()
	if err != nil {
		return err
	}
	for _, p := range programs {
		env := slices.Concat(fixed, []string{"GOOS=linux", "GOARCH=" + p.arch, "GOFLAGS=-tags=grpcnotrace"})
		text, err := run(ctx, env, filepath.Join(bin, "cyclonedx-gomod"), "app", "-json", "-std", "-notimestamp", "-noserial",
			"-licenses", "-assert-licenses", "-main", "cmd/"+p.name, r.Root)
		if err != nil {
			return err
		}
		if text, err = named(text, r.Version); err != nil {
			return fmt.Errorf("SBOM of %s: %w", p.name, err)
		}
		file := fmt.Sprintf("%s-linux-%s.cdx.json", p.name, p.arch)
		if err := os.WriteFile(filepath.Join(files, file), text, 0o644); err != nil {
			return err
		}
		for _, d := range manifest.Manifests {
			if d.Platform.Architecture == p.arch {
				if err := r.refer(d, sbomType, file, text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// named returns an SBOM in which the program has the release's version. The tool takes it from the
// tags that a clone happens to have.
func named(sbom []byte, version string) ([]byte, error) {
	var bom struct {
		Metadata struct {
			Component struct{ Name, Version string }
		}
	}
	if err := json.Unmarshal(sbom, &bom); err != nil {
		return nil, err
	}
	c := bom.Metadata.Component
	if c.Version == "" || c.Name == "" {
		return nil, fmt.Errorf("it names no component")
	}
	sbom = bytes.ReplaceAll(sbom, []byte(c.Name+"@"+c.Version), []byte(c.Name+"@"+version))
	return bytes.ReplaceAll(sbom, []byte(`"version": "`+c.Version+`"`), []byte(`"version": "`+version+`"`)), nil
}

// refer adds an artifact that refers to an image or to the index, so that it is found in a registry
// by the image's name.
func (r *Release) refer(subject v1.Descriptor, kind types.MediaType, title string, data []byte) error {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), kind)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(data, kind), MediaType: kind,
		Annotations: map[string]string{"org.opencontainers.image.title": title},
	})
	if err != nil {
		return err
	}
	// Without a platform: an index names it beside the subject.
	d := v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}
	annotated := mutate.Annotations(image, map[string]string{"org.opencontainers.image.created": r.annotations()["org.opencontainers.image.created"]})
	r.Artifacts = append(r.Artifacts, mutate.Subject(annotated, d).(v1.Image))
	return nil
}
