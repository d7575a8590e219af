package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// DataDir is one entry of --datadir.
type DataDir struct {
	Name string `json:"name"`
	// Path of the pool; a relative one resolves against /.
	Path string `json:"path"`
	// Mount is the directory, Path itself or one above it, that must be a mount
	// point of the host before the pool is used.
	Mount string `json:"mount"`
	// SnapshotPath and SnapshotProvider are read, so that nobody's settings
	// are an error; snapshots are not offered yet.
	SnapshotPath     string `json:"snapshotPath"`
	SnapshotProvider string `json:"snapshotProvider"`
	// Shared pools are not offered: the agent never touches one.
	Shared bool `json:"shared"`

	inner []string // names in the pool that are not for volumes
}

// snapshotsName is where older drivers keep snapshots, inside their pool. It
// must never be taken for a volume.
const snapshotsName = "snapshots"

// notOffered says why the pool is not served, "" if it is.
func (d *DataDir) notOffered() string {
	if !d.Shared {
		return ""
	}
	return `--datadir says "shared": true, and pools shared between nodes are not offered: each node owns its pools alone; ` +
		"remove the pool from --datadir, or keep the older driver for it"
}

// ParseDataDirs reads the value of --datadir. Paths come back absolute and
// clean, in the order given. The error names the entry and what to do.
func ParseDataDirs(text string) ([]DataDir, error) {
	var all []DataDir
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf(`--datadir is not a JSON list such as [{"name":"local","path":"/var/hpvolumes"}]: %w`, err)
	}
	// A misspelt key would otherwise be a setting that is not applied.
	strict := json.NewDecoder(strings.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(new([]DataDir)); err != nil {
		return nil, fmt.Errorf("--datadir: %w", err)
	}
	if len(all) == 0 {
		return nil, errors.New("--datadir lists no pool")
	}
	names, paths := map[string]bool{}, map[string]string{}
	for i := range all {
		d := &all[i]
		switch {
		case d.Name == "":
			return nil, fmt.Errorf("--datadir: entry %d has no name", i+1)
		case d.Path == "":
			return nil, fmt.Errorf("--datadir: pool %q has no path", d.Name)
		case names[d.Name]:
			return nil, fmt.Errorf("--datadir: two pools have the name %q", d.Name)
		}
		d.Path = filepath.Join("/", d.Path)
		if other, taken := paths[d.Path]; taken {
			return nil, fmt.Errorf("--datadir: the pools %q and %q have the same path %s", other, d.Name, d.Path)
		}
		names[d.Name], paths[d.Path] = true, d.Name
	}
	return all, nil
}

// reserveInner notes in every pool the names through which the way to another
// pool, or to its snapshots, leads.
func reserveInner(all []DataDir) {
	for i := range all {
		all[i].inner = []string{snapshotsName}
		for _, other := range all {
			all[i].reserve(other.Path)
			if other.SnapshotPath != "" {
				all[i].reserve(filepath.Join("/", other.SnapshotPath))
			}
		}
	}
}

func (d *DataDir) reserve(path string) {
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(d.Path, "/")+"/")
	name, _, _ := strings.Cut(rest, "/")
	if below && name != "" && !slices.Contains(d.inner, name) {
		d.inner = append(d.inner, name)
	}
}
