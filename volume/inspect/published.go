//go:build linux

package inspect

import (
	"path/filepath"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// Mount is a place where a volume, or a directory in it, is mounted.
type Mount struct {
	Volume string `json:"volume"`
	Point  string `json:"point"`
}

// Published returns where directories of the pool at path are mounted, by name: what removes files
// below these places removes the volumes' data. It sees the mounts of its own mount namespace; a
// pod's hostPath volumes are in that of the container alone. Mounts of the whole pool do not count.
func Published(path string) (mounts []Mount, err error) {
	const op = "find the mounts of pool"
	path = filepath.Join("/", path)
	err = bounded.Alone(op, path, func(*bounded.Call) error {
		d, err := pooldir.OpenToRead(path)
		if err != nil {
			return err
		}
		defer d.Close()
		names, err := d.Children()
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return fault.CheckName(name) != nil })
		used, err := d.Used(names)
		if err != nil {
			return err
		}
		for _, name := range names {
			for _, point := range used[name] {
				mounts = append(mounts, Mount{Volume: name, Point: point})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, path, err)
	}
	return mounts, nil
}
