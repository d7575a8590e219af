package volume_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A volume whose deletion was begun and not decided, or which is being restored, is in the trash, and
// its record is among the pool's. While that record cannot be read, the entry is as one without a
// record; no purge takes it for that, or writes it one. Other entries go.
func TestUndecidedEntryIsKept(t *testing.T) {
	aside := record.Record{Version: record.Version + 1, Name: "v", State: record.Bound, Bytes: gib, PV: "pv-v",
		Owner: record.Owner{UID: "uid-v"}, Trash: "GONE"}
	returning := aside
	returning.Trash, returning.Returning = "NEXT", "GONE"
	text := func(r record.Record) string {
		data, err := json.Marshal(r)
		ok(t, err)
		return string(data)
	}
	decided := record.Record{Version: record.Version, Name: "w", State: record.Deleting, Bytes: gib, Trash: "DECIDED"}
	for name, content := range map[string]string{
		"set aside, of a later version": text(aside), "returning, of a later version": text(returning),
		"torn": `{"version":1,"name":"v"`, "empty": "", "zeros": "\x00\x00",
		"unreadable": "directory", // read(2) fails with EISDIR, as it does with EIO on a bad sector
	} {
		t.Run(name, func(t *testing.T) {
			path := founded(t)
			if content == "directory" {
				mkdir(t, filepath.Join(path, records, "v"))
			} else {
				write(t, filepath.Join(path, records, "v"), content)
			}
			write(t, filepath.Join(path, trash, "GONE/data"), "precious")
			write(t, filepath.Join(path, trash, "DECIDED/data"), "deleted")
			write(t, filepath.Join(path, trash, "DECIDED.json"), text(decided))
			p := opened(t, volume.Config{Path: path})
			if len(p.Damaged()) != 1 {
				t.Fatalf("damaged: %q", p.Damaged())
			}
			for range 2 {
				more, err := p.Purge(t.Context())
				if err == nil || !strings.Contains(err.Error(), "trash entry GONE: it has no record") || !more {
					t.Errorf("Purge: more %v, %v", more, err)
				}
				if left := p.Trash(); len(left.Stuck) != 1 || left.Entries != 1 {
					t.Errorf("left %+v", left)
				}
			}
			if got := names(t, filepath.Join(path, trash)); len(got) != 1 || !there(filepath.Join(path, trash, "GONE/data")) {
				t.Errorf("the trash has %q", got)
			}
		})
	}
}

// An empty record is of a creation that a power cut ended, also if the trash has volumes: each of
// these has its record.
func TestEmptyRecordBesideTheTrash(t *testing.T) {
	path := founded(t)
	write(t, filepath.Join(path, records, "new"), "")
	write(t, filepath.Join(path, records, "v"),
		`{"version":1,"name":"v","state":"bound","bytes":1,"pv":"pv-v","trash":"GONE"}`)
	write(t, filepath.Join(path, trash, "GONE/data"), "set aside")
	write(t, filepath.Join(path, trash, ".new-note"), "a note that was being written")
	p := opened(t, volume.Config{Path: path})
	if len(p.Damaged()) > 0 || there(filepath.Join(path, records, "new")) {
		t.Errorf("damaged: %q", p.Damaged())
	}
	purge(t, p)
	if !there(filepath.Join(path, trash, "GONE/data")) {
		t.Error("a volume that is set aside was purged")
	}
}
