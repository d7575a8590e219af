package pooldir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// The note is read beside the process that owns the pool. There is none where no pool is.
func TestReadPaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	private := filepath.Join(path, PrivateName)
	read := func(want ...string) {
		t.Helper()
		if got, err := ReadPaths(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	read()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	read()
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	read()
	fd, err := openBase(private)
	if err != nil {
		t.Fatal(err)
	}
	d := newDir()
	defer d.Close()
	d.Private = fd
	for _, paths := range [][]string{{"/a", "/b"}, {"/b"}, nil} {
		if err := d.SetPaths(paths, func(string) {}); err != nil {
			t.Fatal(err)
		}
		read(paths...)
	}
	if err := os.WriteFile(filepath.Join(private, pathsName), []byte(`{"paths":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadPaths(path); !errors.Is(err, fault.ErrDamaged) {
		t.Errorf("a damaged note: %q, %v", got, err)
	}
}
