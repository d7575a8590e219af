package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// Whatever lies in a pool's private directory, inspect prints it or says what
// is wrong, changes nothing, and sends a terminal nothing but text.
func FuzzInspect(f *testing.F) {
	const id = `{"version":1,"id":"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0","created":"2026-01-01T00:00:00Z"}`
	const record = `{"version":1,"name":"v","state":"bound","bytes":1073741824,"owner":{"namespace":"default","name":"data","uid":"u"},"pv":"pv-v"}`
	f.Add(id, "agent, pid 1", "v", record, "T1", record, uint8(0))
	f.Add(id, "", "v\x1b[2J", "{", "T1\n", `{"name":"\u001b[31m"}`, uint8(1))
	f.Add(`{"version":1,"id":"\u001b]0;x\u0007"}`, "\x1b[31m", "v", `{"name":"v","state":"bound","bytes":1,"pv":"\u001b[2J"}`, ".json", "", uint8(2))
	f.Add(id, "", "v", record, "T\x7f", "{\"name\":\"\u009b31m\u200b\U000e0001\"}", uint8(0))
	f.Add("", "", "", "", "", "", uint8(7))
	f.Fuzz(func(t *testing.T, identity, lock, name, data, trash, trashed string, odd uint8) {
		dir := t.TempDir()
		private := filepath.Join(dir, ".hostpath-provisioner")
		for _, sub := range []string{"records", "trash", "../v"} {
			if err := os.MkdirAll(filepath.Join(private, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for i, file := range []struct{ in, name, data string }{
			{"", "pool.json", identity}, {"", "lock", lock}, {"records", name, data}, {"trash", trash, ""}, {"trash", trash + ".json", trashed},
		} {
			lay(t, filepath.Join(private, file.in), file.name, file.data, odd>>i&1 == 1)
		}
		before := tree(t, dir)
		for _, format := range []string{"table", "json"} {
			var out bytes.Buffer
			err := run(t.Context(), []string{"inspect", "-o", format, dir}, &out)
			if err != nil {
				out.WriteString(err.Error())
			} else if format == "json" && json.Unmarshal(out.Bytes(), &inspect.Report{}) != nil {
				t.Errorf("not JSON: %q", out.String())
			}
			if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("control characters at %d of %q", i, out.String())
			}
		}
		if after := tree(t, dir); !slices.Equal(before, after) {
			t.Errorf("was %q, is %q", before, after)
		}
	})
}

// lay puts a file there, or something else in its place: a pipe, which would
// stop whoever opens it carelessly.
func lay(t *testing.T, dir, name, data string, pipe bool) {
	t.Helper()
	if name == "" || strings.ContainsAny(name, "/\x00") || len(name) > 255 || name == "." || name == ".." {
		return
	}
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err == nil {
		return
	}
	err := unix.Mkfifo(path, 0o600)
	if !pipe {
		_ = os.Remove(path)
		err = os.WriteFile(path, []byte(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tree is everything below a directory.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, i os.FileInfo, err error) error {
		all = append(all, path+" "+i.Mode().String()+" "+i.ModTime().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
