package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// programBytes is the most that the programs of an image may have, because every node pulls them.
const programBytes = 85_000_000

// assemble makes the index of the images of the architectures.
func (r *Release) assemble(programs []program, architectures []string) (err error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := r.image(arch, programs)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	r.Index = mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	r.Digest, err = r.Index.Digest()
	return err
}

// annotations are those of the index and its images, by the names of the OCI image specification.
func (r *Release) annotations() map[string]string {
	all := map[string]string{
		"org.opencontainers.image.created":     r.epoch().Format(time.RFC3339),
		"org.opencontainers.image.description": "Node-local storage for Kubernetes: the node agent and its operator",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.title":       "hostpath-provisioner",
		"org.opencontainers.image.version":     r.Version,
	}
	if r.Source.Commit != "" { // sources without a repository have none
		all["org.opencontainers.image.revision"] = r.Source.Commit
	}
	return all
}

// image makes the image of an architecture: its static programs and nothing else, no shell, no
// package to update. It starts the agent as root, because tenants' files belong to any user, and
// the agent removes them; manifests take away every capability that this does not need.
func (r *Release) image(arch string, programs []program) (v1.Image, error) {
	content, err := r.content(arch, programs)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)),
			nil
	},
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.epoch()}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: created, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{User: "0", Entrypoint: []string{"/" + names[0]}, Labels: r.annotations()}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, r.annotations()).(v1.Image), nil
}

// content returns the layer's files.
func (r *Release) content(arch string, programs []program) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, p := range programs {
		if p.arch != arch {
			continue
		}
		data, err := os.ReadFile(p.file)
		if err != nil {
			return nil, err
		}
		if err := addFile(w, p.name, 0o755, data, r.epoch()); err != nil {
			return nil, err
		}
	}
	if buf.Len() > programBytes {
		return nil, fmt.Errorf("the programs have %d bytes, more than %d: find what they depend on", buf.Len(), programBytes)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
