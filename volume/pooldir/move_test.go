package pooldir

import (
	"os"
	"path/filepath"
	"testing"
)

// A pool that kept a volume once was used, however empty it is.
func TestEverUsed(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{RecordsName, StagingName, TrashName} {
		if err := os.MkdirAll(filepath.Join(path, PrivateName, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, used := range []bool{false, true} {
		if used {
			if err := os.Mkdir(filepath.Join(path, PrivateName, KeptName), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		d := newDir()
		var err error
		if d.Base, err = openBase(path); err != nil {
			t.Fatal(err)
		}
		if d.Private, err = openDir(d.Base, PrivateName); err != nil {
			t.Fatal(err)
		}
		for name, fd := range map[string]*int{RecordsName: &d.Records, StagingName: &d.Staging, TrashName: &d.Trash, KeptName: &d.kept} {
			if *fd, err = openDir(d.Private, name); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.everUsed(nil); got != used {
			t.Errorf("ever used: %v, want %v", got, used)
		}
		d.Close()
	}
}
