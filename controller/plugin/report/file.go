package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Save writes a file that only its owner may read (0600), under a temporary name in its directory,
// and renames it when it is complete. It replaces an existing file only with force. It returns the
// size. After an error there is no new file.
func Save(path string, force bool, write func(io.Writer) error) (size int64, err error) {
	if err := free(path, force); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // it has mode 0600
	if err != nil {
		return 0, fmt.Errorf("create the report: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already after a rename
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return 0, fmt.Errorf("write the report: %w", err)
	}
	// Someone may have made the file meanwhile.
	if err := free(path, force); err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(f.Name(), path)
}

// free returns an error if the file exists and may not be replaced.
func free(path string, force bool) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file", path)
	case !force:
		return fmt.Errorf("%s exists: name another file, or add --force", path)
	}
	return nil
}
