package volume_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestNames(t *testing.T) {
	p := opened(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Inner: []string{"csi"}})
	for _, name := range []string{"", ".", "..", ".hidden", private, "a/b", "../x", "a b", "a\x00b", "ä", "a\n",
		strings.Repeat("x", 256), "csi"} {
		_, err := p.Create(spec(name, gib))
		is(t, err, volume.ErrInvalid)
		_, err = p.Adopt(spec(name, gib))
		is(t, err, volume.ErrInvalid)
		_, err = p.Bind(name, binding("x"))
		is(t, err, volume.ErrInvalid)
		_, err = p.Get(name)
		is(t, err, volume.ErrInvalid)
		is(t, p.Delete(name), volume.ErrInvalid)
		is(t, p.RollBack(name), volume.ErrInvalid)
	}
	for _, name := range []string{"a", "A-1_b.c", strings.Repeat("x", 255)} {
		create(t, p, name)
		_, err := p.Bind(name, binding(name))
		ok(t, err)
		ok(t, p.Delete(name))
	}
	consistent(t, p)
	purge(t, p)
}

func TestListAndGet(t *testing.T) {
	p := newPool(t)
	if all, err := p.List(); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
	for _, name := range []string{"c", "a", "b"} {
		create(t, p, name)
	}
	all, err := p.List()
	ok(t, err)
	var got []string
	for _, v := range all {
		got = append(got, v.Name)
	}
	if strings.Join(got, "") != "abc" {
		t.Errorf("list %v", got)
	}
	for _, pv := range []string{"", "pv-none"} {
		_, err := p.ByPV(pv)
		is(t, err, volume.ErrNotFound)
	}
	_, err = p.Get("none")
	is(t, err, volume.ErrNotFound)
}

func TestDamagedRecords(t *testing.T) {
	path := founded(t)
	good := `{"version":1,"name":"v","state":"ready","bytes":1}`
	for name, content := range map[string]string{
		"empty": "", "text": "hello", "bad name": "{}", "other": good, "no-bytes": `{"name":"no-bytes","state":"ready"}`,
		"no-state": `{"name":"no-state","bytes":1,"state":"?"}`, "later": `{"version":2,"name":"later","state":"ready","bytes":1}`,
		"astray": `{"name":"astray","bytes":1,"state":"deleting","trash":"../../x"}`,
	} {
		write(t, filepath.Join(path, records, name), content)
		mkdir(t, filepath.Join(path, name))
	}
	p := opened(t, volume.Config{Path: path})
	if got := p.Damaged(); len(got) != 8 || !strings.Contains(strings.Join(got, "\n"), "record later: record is damaged: it is of version 2") {
		t.Errorf("damaged %q", got)
	}
	for _, name := range []string{"empty", "later", "astray"} {
		_, err := p.Create(spec(name, gib))
		is(t, err, volume.ErrDamaged)
		_, err = p.Get(name)
		is(t, err, volume.ErrDamaged)
		is(t, p.Delete(name), volume.ErrDamaged)
		if !there(filepath.Join(path, name)) || !there(filepath.Join(path, records, name)) {
			t.Errorf("%s was touched", name)
		}
	}
	create(t, p, "v")
}

func TestReportAndRecordJSON(t *testing.T) {
	r := record.Record{Version: 1, Name: "v", State: record.Ready, Bytes: 5}
	data, err := json.Marshal(r)
	ok(t, err)
	if want := `{"version":1,"name":"v","state":"ready","bytes":5,"created":"0001-01-01T00:00:00Z"}`; string(data) != want {
		t.Errorf("got %s", data)
	}
}

func TestErrors(t *testing.T) {
	space := &fault.SpaceError{Wanted: 3, Available: 2, Total: 10}
	err := error(&fault.Error{Op: "create volume", Name: "v", Err: space})
	if got := err.Error(); got != `create volume "v": not enough space: wanted 3 bytes, 2 of 10 available` {
		t.Error(got)
	}
	var as *fault.SpaceError
	if !errors.Is(err, volume.ErrNoSpace) || errors.Is(err, volume.ErrInUse) || !errors.As(err, &as) {
		t.Error("it is no ErrNoSpace")
	}
}
