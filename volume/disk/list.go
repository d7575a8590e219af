package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// List returns what is below the directory, at any depth, and has a base name that the expression
// matches, sorted by path. Links are followed to devices, and never into directories.
//
// A path that is no usable device, and a directory that cannot be read, is in the list with its
// Err: one bad device hides no other. The error is that of dir itself.
func (m *Machine) List(dir string, names *regexp.Regexp) ([]Device, error) {
	info, err := os.Stat(m.root + dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	entries, err := os.ReadDir(m.root + dir)
	if err != nil {
		return nil, err
	}
	return m.view().list(nil, dir, entries, names), nil
}

func (v *view) list(all []Device, dir string, entries []os.DirEntry, names *regexp.Regexp) []Device {
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			below, err := os.ReadDir(v.root + path)
			if err != nil {
				all = append(all, Device{Path: path, Err: err})
			}
			all = v.list(all, path, below, names)
			continue
		}
		if names.MatchString(e.Name()) {
			all = append(all, v.at(path))
		}
	}
	return all
}
