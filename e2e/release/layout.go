package release

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// writeLayout writes the archive with the index and its artifacts. Work is a directory for its
// parts.
func (r *Release) writeLayout(work, files string) error {
	r.step("write %s", r.archive())
	dir, err := layout.Write(work, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	// The first is what tools for layouts call the image, the second what containerd calls it after
	// an import.
	names := map[string]string{"org.opencontainers.image.ref.name": r.Version, "io.containerd.image.name": r.Name()}
	if err := dir.AppendIndex(r.Index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	for _, artifact := range r.Artifacts {
		if err := dir.AppendImage(artifact); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(filepath.Join(files, r.archive()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(archive(out, work, r.epoch()), out.Close())
}

// archive writes the files below dir in the order of their names, with the one time and owner.
func archive(w io.Writer, dir string, at time.Time) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return addFile(t, filepath.ToSlash(name), 0o644, data, at)
	})
	return errors.Join(err, t.Close())
}

// addFile adds a file of root to an archive.
func addFile(w *tar.Writer, name string, mode int64, data []byte, at time.Time) error {
	h := tar.Header{Name: name, Mode: mode, Typeflag: tar.TypeReg, Size: int64(len(data)), ModTime: at}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
