package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// krewTools are the programs of krew: that which its index runs on each new manifest, and krew
// itself, which it runs.
const (
	krewValidates = "sigs.k8s.io/krew/cmd/validate-krew-manifest@v0.4.3"
	krew          = "sigs.k8s.io/krew/cmd/krew@v0.4.3"
)

// packedPlugin writes the archives of programs of a few bytes, and the manifest.
func packedPlugin(t *testing.T) (files string) {
	t.Helper()
	r := &Release{Options: Options{Root: "../..", Version: "v1.2.3-rc.1", Progress: io.Discard}, Source: Source{Time: time.Unix(1<<30, 0).UTC()}}
	programs := map[platform][]byte{}
	for _, p := range pluginPlatforms {
		programs[p] = []byte("for " + p.os + "/" + p.arch)
	}
	files = t.TempDir()
	if err := r.packPlugin(programs, []byte("licenses"), files); err != nil {
		t.Fatal(err)
	}
	return files
}

// The archives have the program and its licenses, are the same bytes each time, and the manifest
// has their sums.
func TestPlugin(t *testing.T) {
	first, second := contents(t, packedPlugin(t)), contents(t, packedPlugin(t))
	for _, p := range pluginPlatforms {
		name := (&Release{Options: Options{Version: "v1.2.3-rc.1"}}).pluginArchive(p)
		data := first[name]
		if len(data) == 0 || !bytes.Equal(data, second[name]) {
			t.Errorf("%s: %d and %d bytes, which differ or are none", name, len(data), len(second[name]))
			continue
		}
		program := "kubectl-hpp"
		if p.os == "windows" {
			program += ".exe"
		}
		want := fmt.Sprintf("%s -rwxr-xr-x for %s/%s, LICENSE -rw-r--r--, LICENSES.txt -rw-r--r-- licenses", program, p.os, p.arch)
		if got := listed(t, name, data); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	if len(first) != len(pluginPlatforms)+1 || !bytes.Equal(first["hpp.yaml"], second["hpp.yaml"]) {
		t.Errorf("%d files", len(first))
	}
	for _, want := range []string{"\n  version: v1.2.3-rc.1\n", "/download/v1.2.3-rc.1/kubectl-hpp-v1.2.3-rc.1-windows-amd64.zip\n"} {
		if !bytes.Contains(first["hpp.yaml"], []byte(want)) {
			t.Errorf("no %q in\n%s", want, first["hpp.yaml"])
		}
	}
}

// listed returns the files of an archive with modes and, if they are short, contents.
func listed(t *testing.T, name string, data []byte) string {
	t.Helper()
	var all []string
	add := func(file string, mode os.FileMode, from io.Reader) {
		text, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		line := file + " " + mode.String()
		if len(text) < 100 {
			line += " " + string(text)
		}
		all = append(all, line)
	}
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			content, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(f.Name, f.Mode(), content)
		}
		return strings.Join(all, ", ")
	}
	g, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(g); ; {
		h, err := files.Next()
		if err != nil {
			return strings.Join(all, ", ")
		}
		add(h.Name, os.FileMode(h.Mode), files)
	}
}

// krew's own tools accept the manifest, and install the plugin on each platform from the archives.
func TestKrew(t *testing.T) {
	files, bin := packedPlugin(t), t.TempDir()
	for _, tool := range []string{krewValidates, krew} {
		if err := install(t.Context(), bin, tool); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(bin, "krew"), filepath.Join(bin, "kubectl-krew")); err != nil {
		t.Fatal(err)
	}
	// As kubectl does.
	write(t, filepath.Join(bin, "kubectl"), "#!/bin/sh\nshift\nexec kubectl-krew \"$@\"\n")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var fetched []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched = append(fetched, r.URL.Path)
		http.FileServer(http.Dir(files)).ServeHTTP(w, r)
	}))
	defer server.Close()
	manifest := filepath.Join(files, "hpp.yaml")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	write(t, manifest, strings.ReplaceAll(string(text), (&Release{Options: Options{Version: "v1.2.3-rc.1"}}).downloads(), server.URL+"/"))
	out, err := exec.Command("validate-krew-manifest", "-manifest", manifest).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("all %d spec.platforms installed fine", len(pluginPlatforms))) {
		t.Errorf("%v\n%s", err, out)
	}
	if len(fetched) != len(pluginPlatforms) {
		t.Errorf("krew fetched %q", fetched)
	}
	for line := range strings.Lines(string(text)) { // the index asks for this
		if short, ok := strings.CutPrefix(line, "  shortDescription: "); ok && len(short) > 50 {
			t.Errorf("the short description has %d characters", len(short))
		}
	}
	// Another archive is refused.
	write(t, filepath.Join(files, "kubectl-hpp-v1.2.3-rc.1-linux-amd64.tar.gz"), "another")
	if out, err := exec.Command("validate-krew-manifest", "-manifest", manifest).CombinedOutput(); err == nil {
		t.Errorf("krew installs another archive: %s", out)
	}
}
