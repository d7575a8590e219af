package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// archive writes an image for the architecture as make image does, with one file that names the architecture.
func archive(t *testing.T, arch string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), arch+".tar")
	if err := cluster.WriteImage(cluster.Image{
		Name: "localhost/agent:test", Files: []cluster.ImageFile{{Path: "/arch", Mode: 0o644, Data: []byte(arch)}}, Entrypoint: []string{"/arch"},
	}, file); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Architecture = arch
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("localhost/agent:test")
	if err != nil {
		t.Fatal(err)
	}
	changed := file + ".changed" // the layer is still in the first
	if err := tarball.WriteToFile(changed, tag, image); err != nil {
		t.Fatal(err)
	}
	return changed
}

// A node of each architecture pulls its own image by the one name.
func TestPushBothArchitectures(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/storage/agent:v1"
	var out bytes.Buffer
	if err := run(t.Context(), []string{image, archive(t, "amd64"), archive(t, "arm64")}, &out); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := index.Digest(); err != nil || out.String() != "pushed "+image+"@"+digest.String()+"\n" {
		t.Errorf("printed %q; the index is %s, %v", out.String(), digest, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Errorf("index %+v, %v; want two images", manifest, err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		pulled, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Errorf("%s: %v", arch, err)
			continue
		}
		content, err := io.ReadAll(mutate.Extract(pulled))
		if err != nil || !bytes.Contains(content, []byte(arch)) {
			t.Errorf("%s: its image does not have its file: %v", arch, err)
		}
		if config, err := pulled.ConfigFile(); err != nil || config.Architecture != arch || config.Config.Entrypoint[0] != "/arch" {
			t.Errorf("%s: config %+v, %v", arch, config, err)
		}
	}
}

func TestPushRefuses(t *testing.T) {
	one, same := archive(t, "amd64"), archive(t, "amd64")
	none := filepath.Join(t.TempDir(), "none.tar")
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "127.0.0.1:1/storage/agent:v1"
	for what, row := range map[string]struct {
		args []string
		want string
	}{
		"nothing":           {nil, "usage"},
		"no archive":        {[]string{good}, "usage"},
		"the placeholder":   {[]string{"--check", "registry.invalid/hostpath-provisioner:v0.1.0"}, "registry of yours"},
		"a public registry": {[]string{"--check", "hostpath-provisioner:v0.1.0"}, "registry of yours"},
		"no tag":            {[]string{"--check", "registry.example.com/hostpath-provisioner"}, "registry of yours"},
		"a digest":          {[]string{"--check", "registry.example.com/a@sha256:" + strings.Repeat("0", 64)}, "registry of yours"},
		"one twice":         {[]string{good, one, same}, "are both for linux/amd64"},
		"no image":          {[]string{good, none}, none},
		"nobody there":      {[]string{good, one}, good},
	} {
		if err := run(t.Context(), row.args, io.Discard); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want words %q", what, err, row.want)
		}
	}
	if err := run(t.Context(), []string{"--check", good}, io.Discard); err != nil {
		t.Error(err)
	}
}
