package release

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artifact is a manifest of one layer whose configuration is not that of an image.
type artifact struct {
	config, manifest []byte
	layer            v1.Layer
}

// newArtifact returns an artifact of a registry with a configuration and a layer.
func newArtifact(config []byte, kind types.MediaType, layer v1.Layer) (v1.Image, error) {
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: kind, Size: size, Digest: digest}, Layers: []v1.Descriptor{*content},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&artifact{config: config, manifest: manifest, layer: layer})
}

// These methods implement partial.CompressedImageCore.

func (a *artifact) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a *artifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a *artifact) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if d, err := a.layer.Digest(); err != nil || d != h {
		return nil, fmt.Errorf("no layer %s: %w", h, err)
	}
	return a.layer, nil
}
