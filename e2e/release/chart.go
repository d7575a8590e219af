package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of a chart in a registry: https://helm.sh/docs/topics/registries
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartVersion is the chart's version, which has no v.
func (r *Release) chartVersion() string { return strings.TrimPrefix(r.Version, "v") }

// chartName is the name of the chart in the image's registry. Its last part is the chart's own
// name, as Helm demands.
func (r *Release) chartName() string {
	return path.Join(path.Dir(r.Repository), "charts", "hostpath-provisioner")
}

// pinnedChart returns the chart's name with its digest, "" for an image for tests, which has none.
func (r *Release) pinnedChart() (string, error) {
	if r.Chart == nil {
		return "", nil
	}
	digest, err := r.Chart.Digest()
	if err != nil {
		return "", err
	}
	return r.chartName() + "@" + digest.String(), nil
}

// writeChart writes the chart's archive, with the release's versions and the image's digest in its
// values.
func (r *Release) writeChart(files string) error {
	r.step("package the chart")
	dir := filepath.Join(r.Root, "manifests", "chart")
	all, err := chartFiles(dir)
	if err != nil {
		return err
	}
	if err := r.replace(all, "Chart.yaml", map[string]string{
		"\nversion: 0.0.0\n":     "\nversion: " + r.chartVersion() + "\n",
		"\nappVersion: v0.0.0\n": "\nappVersion: " + r.Version + "\nhome: " + r.project() + "\nsources: [" + r.project() + "]\n",
	}); err != nil {
		return err
	}
	if err := r.replace(all, "values.yaml", map[string]string{
		"  repository: " + placeholder + "\n": "  repository: " + r.Repository + "\n",
		"  digest: \"\"\n":                    "  digest: " + r.Digest.String() + "\n",
		"  tag: v0.1.0\n":                     "  tag: " + r.Version + "\n",
		"  runbooks: \"\"\n":                  "  runbooks: " + r.page(runbooks+"%s.md") + "\n",
	}); err != nil {
		return err
	}
	archive, err := packed(all, r.epoch())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(files, r.chartArchive()), archive, 0o644); err != nil {
		return err
	}
	var metadata map[string]any
	if err := yaml.Unmarshal(all["Chart.yaml"], &metadata); err != nil {
		return err
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return err
	}
	r.Chart, err = newArtifact(config, chartConfig, static.NewLayer(archive, chartContent))
	return err
}

func (r *Release) chartArchive() string { return "hostpath-provisioner-" + r.chartVersion() + ".tgz" }

// replace replaces text that a file has once.
func (r *Release) replace(all map[string][]byte, name string, changes map[string]string) error {
	for from, to := range changes {
		if bytes.Count(all[name], []byte(from)) != 1 {
			return fmt.Errorf("manifests/chart/%s has %q not once", name, from)
		}
		all[name] = bytes.Replace(all[name], []byte(from), []byte(to), 1)
	}
	return nil
}

// chartFiles reads the files of the chart by their paths. Its links to the other manifests are
// followed, one level deep: a chart is complete without the tree.
func chartFiles(dir string) (map[string][]byte, error) {
	all := map[string][]byte{}
	var read func(from, to string) error
	read = func(from, to string) error {
		return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := path.Join(to, filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(file, from), "/")))
			switch {
			case d.IsDir():
				return nil
			case d.Type()&fs.ModeSymlink != 0:
				target, err := filepath.EvalSymlinks(file)
				if err != nil {
					return err
				}
				return read(target, name)
			case to != "" && path.Ext(name) != ".yaml" && path.Ext(name) != ".json": // the objects, and the dashboard
				return nil
			}
			all[name], err = os.ReadFile(file)
			return err
		})
	}
	return all, read(dir, "")
}

// packed returns the files as Helm packs them, in the order of their names, with one time.
func packed(all map[string][]byte, at time.Time) ([]byte, error) {
	var files []archived
	for _, name := range slices.Sorted(maps.Keys(all)) {
		files = append(files, archived{"hostpath-provisioner/" + name, 0o644, all[name]})
	}
	return tarred(files, at)
}
