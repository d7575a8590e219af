package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Local returns an image of the programs that `make build` left in bin, for each of the
// architectures. It is no release: the checkout may have changes, and a push replaces what has the
// tag.
func Local(ctx context.Context, root, image string, progress io.Writer, architectures ...string) (*Release, error) {
	tag, err := name.NewTag(image, name.WeakValidation)
	if err != nil || strings.Contains(image, "@") {
		return nil, fmt.Errorf("%q is not the name of an image with a tag: "+
			"registry.example.com/storage/hostpath-provisioner:v0.1.0", image)
	}
	r := &Release{Options: Options{Root: root, Version: tag.TagStr(), Repository: tag.Repository.String(), Overwrite: true,
		Progress: progress}}
	if r.Source, err = lastCommit(ctx, root); err != nil { // an archive of the sources has no commits
		r.Source = Source{Time: time.Unix(0, 0).UTC()}
	}
	var programs []program
	for _, arch := range architectures {
		for _, n := range names {
			file := filepath.Join(root, "bin", "linux-"+arch, n)
			if _, err := os.Stat(file); err != nil {
				return nil, fmt.Errorf("%w; make build ARCHES=%s builds it", err, arch)
			}
			programs = append(programs, program{name: n, arch: arch, file: file})
		}
	}
	return r, r.assemble(programs, architectures)
}

// WriteArchive writes the image of the first architecture as a docker-archive, which docker, podman
// and containerd load. The file appears when it is complete.
func (r *Release) WriteArchive(file string) error {
	manifest, err := r.Index.IndexManifest()
	if err != nil {
		return err
	}
	image, err := r.Index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(r.Name(), name.WeakValidation)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }() // fails, rightly, once it has been renamed
	if err := errors.Join(tarball.Write(tag, image, out), out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), file)
}
