package pooldir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
)

// noted is the content of paths.json: other pools of the process that have volumes, for a start
// whose settings do not name them any more.
type noted struct {
	Paths []string `json:"paths"`
}

// ReadPaths returns the paths that are noted in the pool at a path, as Dir.Paths does. It opens no
// pool and changes nothing; there are none where no pool is. The error is an ErrNotReady if the
// disk does not answer.
func ReadPaths(path string) ([]string, error) {
	const op = "read the noted paths"
	var paths []string
	err := bounded.Alone(op, path, func(*bounded.Call) (err error) {
		paths, err = readPaths(path)
		return err
	})
	if err != nil {
		return nil, fault.Failed(op, path, err)
	}
	return paths, nil
}

func readPaths(path string) ([]string, error) {
	d := newDir()
	defer d.Close()
	var err error
	if d.Base, err = openBase(path); err != nil || d.Base < 0 {
		return nil, err
	}
	if d.Private, err = openDir(d.Base, PrivateName); err != nil || d.Private < 0 {
		return nil, err
	}
	return d.Paths()
}

// Paths returns the paths of other pools that SetPaths noted, none if it never did.
func (d *Dir) Paths() ([]string, error) {
	data, err := file.Read(d.Private, pathsName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var n noted
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, fmt.Errorf("%w: %s cannot be read: %w", fault.ErrDamaged, pathsName, err)
	}
	return n.Paths, nil
}

// SetPaths notes the paths of other pools, durably and in place of those before.
func (d *Dir) SetPaths(paths []string, step func(string)) error {
	data, err := file.JSON(noted{paths})
	if err != nil {
		return err
	}
	return file.Replace(d.Private, []file.Content{{Name: pathsName, Data: data}}, step)
}
