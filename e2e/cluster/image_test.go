package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var sample = Image{
	Name: "localhost/sample:1",
	Files: []ImageFile{
		{Path: "/bin/deep/tool", Mode: 0o755, Data: []byte("tool")},
		{Path: "/bin/alias", Mode: 0o777, Link: "deep/tool"},
		{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	},
	Entrypoint: []string{"/bin/deep/tool"},
}

// entry is what a test looks at in a tar.
type entry struct {
	tar.Header
	data []byte
}

func readTar(t *testing.T, data []byte) []entry {
	t.Helper()
	var list []entry
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{*h, content})
	}
}

func archive(t *testing.T, m Image) map[string][]byte {
	t.Helper()
	var buf bytes.Buffer
	if err := m.WriteArchive(&buf); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range readTar(t, buf.Bytes()) {
		files[e.Name] = e.data
	}
	return files
}

func TestArchiveLayout(t *testing.T) {
	files := archive(t, sample)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	m := manifest[0]
	if !slices.Equal(m.RepoTags, []string{sample.Name}) || len(m.Layers) != 1 {
		t.Fatalf("manifest %+v", m)
	}
	var config struct {
		OS     string
		Config struct{ Entrypoint []string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files[m.Config], &config); err != nil {
		t.Fatalf("config %s: %v", m.Config, err)
	}
	diffID := fmt.Sprintf("sha256:%x", sha256.Sum256(files[m.Layers[0]]))
	if !slices.Equal(config.RootFS.DiffIDs, []string{diffID}) {
		t.Errorf("diff IDs %v, the layer's is %s", config.RootFS.DiffIDs, diffID)
	}
	if config.OS != "linux" || !slices.Equal(config.Config.Entrypoint, sample.Entrypoint) {
		t.Errorf("config %+v", config)
	}
}

func TestLayer(t *testing.T) {
	layer, err := sample.layer()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range readTar(t, layer) {
		got = append(got, fmt.Sprintf("%s %c %o %s%s", e.Name, e.Typeflag, e.Mode, e.Linkname, e.data))
	}
	want := []string{
		"bin/ 5 755 ", "bin/deep/ 5 755 ", "bin/deep/tool 0 755 tool", "bin/alias 2 777 deep/tool", "tmp/ 5 1777 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBinaryImageRefuses(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{script, script + "-absent"} {
		if _, err := BinaryImage("localhost/x:1", program); err == nil {
			t.Errorf("%s became an image", program)
		}
	}
}

func TestWriteImageLeavesNothingHalf(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sample.tar")
	if err := WriteImage(sample, file); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "sample.tar" {
		t.Errorf("%v, %v; want sample.tar alone", entries, err)
	}
}
