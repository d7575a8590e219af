package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// The chart of a release is complete without the tree, and names the release's image.
func TestChart(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	r := small(t, host+"/storage/agent", "")
	r.Root, r.Version = "../..", "v1.2.3"
	dir := t.TempDir()
	wants(t, r.writeChart(dir), "")
	data, err := os.ReadFile(filepath.Join(dir, "hostpath-provisioner-1.2.3.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	files := unpacked(t, data)
	for file, words := range map[string]string{
		"Chart.yaml":                              "\nversion: 1.2.3\nappVersion: v1.2.3\n",
		"values.yaml":                             "  digest: " + r.Digest.String() + "\n",
		"values.schema.json":                      "json-schema",
		"templates/agent.yaml":                    "hpp.objects",
		"files/csi/daemonset.yaml":                "kind: DaemonSet",
		"files/monitoring/dashboard.json":         "hostpath-provisioner",
		"files/components/metrics-auth/rbac.yaml": "kind: ClusterRole",
		"README.md":                               "| form |",
		"files/local-path/agent/daemonset.yaml":   "kind: DaemonSet",
	} {
		if !strings.Contains(files[file], words) {
			t.Errorf("%s has not %q, but %.200q", file, words, files[file])
		}
	}
	for file, text := range files {
		if file == "values.yaml" && strings.Contains(text, placeholder) {
			t.Errorf("%s names %s", file, placeholder)
		}
	}
	again := t.TempDir()
	wants(t, r.writeChart(again), "")
	if second, err := os.ReadFile(filepath.Join(again, "hostpath-provisioner-1.2.3.tgz")); err != nil || !bytes.Equal(second, data) {
		t.Errorf("the second has %d bytes, which differ from %d; %v", len(second), len(data), err)
	}

	wants(t, r.Push(t.Context()), "")
	tag, err := name.NewTag(host + "/storage/charts/hostpath-provisioner:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := pushed.Manifest()
	if err != nil || manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContent {
		t.Errorf("%+v %v", manifest, err)
	}
	config, err := pushed.RawConfigFile()
	if err != nil || !strings.Contains(string(config), `"version":"1.2.3"`) {
		t.Errorf("%s %v", config, err)
	}
}

// unpacked returns the files of a chart's archive.
func unpacked(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for files := tar.NewReader(zip); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(h.Name, "hostpath-provisioner/")] = string(text)
	}
}
