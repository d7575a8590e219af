package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// plugin is the program of the plugin of kubectl.
const plugin = "kubectl-hpp"

// platform is what a program is built for, by the names of Go.
type platform struct{ os, arch string }

// pluginPlatforms are those of people's computers. krew's manifest has a part for each.
var pluginPlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}}

// program is the name of the plugin's file.
func (p platform) program() string {
	if p.os == "windows" {
		return plugin + ".exe"
	}
	return plugin
}

// pluginArchive is the name of the plugin's archive.
func (r *Release) pluginArchive(p platform) string {
	kind := ".tar.gz"
	if p.os == "windows" {
		kind = ".zip"
	}
	return strings.Join([]string{plugin, r.Version, p.os, p.arch}, "-") + kind
}

// writePlugin builds the plugin for each platform, in the directory work, and writes its archives
// and its manifest.
func (r *Release) writePlugin(ctx context.Context, work, files string) error {
	list, err := licenses(ctx, r.Root, pluginPlatforms, plugin)
	if err != nil {
		return err
	}
	programs := map[platform][]byte{}
	for _, p := range pluginPlatforms {
		r.step("build the plugin of kubectl for %s/%s", p.os, p.arch)
		out := filepath.Join(work, p.os, p.arch, p.program())
		if err := r.goBuild(ctx, p, out, plugin); err != nil {
			return err
		}
		if programs[p], err = os.ReadFile(out); err != nil {
			return err
		}
	}
	return r.packPlugin(programs, licenseTexts("The programs kubectl-hpp "+r.Version+" have", list), files)
}

// packPlugin writes an archive for each platform, and krew's manifest of them.
func (r *Release) packPlugin(programs map[platform][]byte, licenses []byte, files string) error {
	license, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(r.Root, "cmd", plugin, "krew.yaml"))
	if err != nil {
		return err
	}
	changes := []string{"VERSION", r.Version, "HOMEPAGE", r.project()}
	for _, p := range pluginPlatforms {
		packed, name := tarred, r.pluginArchive(p)
		if p.os == "windows" {
			packed = zipped
		}
		archive, err := packed([]archived{{p.program(), 0o755, programs[p]}, {"LICENSE", 0o644, license},
			{"LICENSES.txt", 0o644, licenses}}, r.epoch())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(files, name), archive, 0o644); err != nil {
			return err
		}
		key := strings.ToUpper(p.os + "_" + p.arch)
		changes = append(changes, "URI_"+key, r.downloads()+name,
			"SHA256_"+key, fmt.Sprintf("%x", sha256.Sum256(archive)))
	}
	filled := strings.NewReplacer(braced(changes)...).Replace(string(manifest))
	if strings.Contains(filled, "${") {
		return fmt.Errorf("cmd/%s/krew.yaml has a word in ${} that no release fills", plugin)
	}
	return os.WriteFile(filepath.Join(files, "hpp.yaml"), []byte(filled), 0o644)
}

// braced returns pairs of words and texts with ${} around the words.
func braced(pairs []string) []string {
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "${" + pairs[i] + "}"
	}
	return pairs
}

// archived is a file of an archive.
type archived struct {
	name string
	mode int64
	data []byte
}

// tarred returns the files as a tar.gz, in their order and with one time.
func tarred(all []archived, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range all {
		if err := addFile(w, f.name, f.mode, f.data, at); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// zipped returns the files as a zip, in their order and with one time.
func zipped(all []archived, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range all {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(f.mode))
		to, err := w.CreateHeader(h)
		if err == nil {
			_, err = to.Write(f.data)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
