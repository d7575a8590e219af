package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// hostPathPool is the name of the pool in PV_DIR if --datadir names pools too.
const hostPathPool = "hostpath"

// layout has the directories of all pools, and which of them are for hostPath claims.
type layout struct {
	dirs []DataDir
	// hostPath has the names of the pools of each served dialect, by provisioner.
	hostPath map[string][]string
}

// newLayout returns the pools of --datadir, PV_DIR and the paths of the local-path configuration.
// check returns an error for a directory that is no pool now, an ErrInvalid if it can be none. The
// error names the setting; a wrong path of the configuration is none.
func (o *Options) newLayout(localPaths []string, check func(*DataDir) error) (l layout, err error) {
	switch {
	case o.driverOnly():
		l.dirs, err = ParseDataDirs(cmp.Or(o.driver.dataDirs, settings.DefaultPools))
	case o.driver.dataDirs != "":
		l.dirs, err = ParseDataDirs(o.driver.dataDirs)
	default:
		l.dirs = []DataDir{{Name: contract.DefaultPool, Path: filepath.Join("/", o.pvDir), Mount: o.pvDirMount}}
		err = checkPVDir(o.pvDir)
	}
	if err == nil && o.provision.hostPath() {
		err = l.addHostPath(o.pvDir, o.pvDirMount, o.provision.dialects)
	}
	if err != nil {
		return layout{}, err
	}
	l.addLocalPaths(localPaths)
	reserveInner(l.dirs)
	if o.driverOnly() {
		return l, l.check("", check)
	}
	return l, l.check(filepath.Join("/", o.pvDir), check)
}

// check validates the directories, all at the same time, so that disks that do not respond delay it
// only once. A pool whose disk is missing is no error: the agent serves the others meanwhile. The
// parent of PV_DIR must exist, unless --pv-dir-mount names the mount of its disk. A directory of
// the local-path configuration that can be no pool is left out.
func (l *layout) check(pvDir string, check func(*DataDir) error) error {
	errs := make([]error, len(l.dirs))
	var all sync.WaitGroup
	for i := range l.dirs {
		if l.dirs[i].notOffered() != "" {
			continue // its path may be on a server that does not respond
		}
		all.Go(func() { errs[i] = check(&l.dirs[i]) })
	}
	all.Wait()
	for i, err := range errs {
		var hangs *fault.HangError
		d := &l.dirs[i]
		switch {
		case err == nil, errors.As(err, &hangs):
		case d.configured && errors.Is(err, volume.ErrInvalid):
			d.leaveOut(err)
		case d.Path == pvDir && (d.Mount == "" || errors.Is(err, volume.ErrInvalid)):
			return fmt.Errorf("PV_DIR (--pv-dir): %w", err)
		case errors.Is(err, volume.ErrInvalid):
			return fmt.Errorf("pool %q: %w", d.Name, err)
		}
	}
	return nil
}

// check returns an error if the directory can never be a pool.
func (d *DataDir) check() error {
	if _, err := volume.New(volume.Config{Path: d.Path, Mount: d.Mount}); err != nil {
		return err
	}
	return pooldir.Check(d.Path)
}

// addHostPath sets the pool of the dialects' claims, the one at PV_DIR, which it adds if missing.
func (l *layout) addHostPath(pvDir, mount string, dialects []contract.Dialect) error {
	name, err := l.poolAt(pvDir, mount)
	if err != nil {
		return err
	}
	l.hostPath = map[string][]string{}
	for _, d := range dialects {
		l.hostPath[d.Provisioner] = []string{name}
	}
	return nil
}

// poolAt returns the name of the pool at PV_DIR, which it adds if there is none.
func (l *layout) poolAt(pvDir, mount string) (name string, err error) {
	if err := checkPVDir(pvDir); err != nil {
		return "", err
	}
	path := filepath.Join("/", pvDir)
	for i := range l.dirs {
		d := &l.dirs[i]
		if d.Path == path {
			if d.Mount != "" && mount != "" && filepath.Join("/", d.Mount) != filepath.Join("/", mount) {
				return "", fmt.Errorf("--datadir says that %s must be mounted for pool %q, and --pv-dir-mount (PV_DIR_MOUNT) %s "+
					"for the same directory",
					d.Mount, d.Name, mount)
			}
			d.Mount = cmp.Or(d.Mount, mount)
			return d.Name, nil
		}
		if d.Name == hostPathPool {
			return "", fmt.Errorf("--datadir: the pool %q is at %s and PV_DIR, whose pool has that name, at %s: give it "+
				"another name",
				hostPathPool, d.Path, path)
		}
	}
	l.dirs = append(l.dirs, DataDir{Name: hostPathPool, Path: path, Mount: mount})
	return hostPathPool, nil
}

// checkPVDir refuses a list of pools, which is the value of PV_DIR for the kubevirt CSI driver.
func checkPVDir(path string) error {
	if strings.HasPrefix(path, "[") {
		return errors.New("PV_DIR is a list of pools; hostPath volumes have one directory: name it there, and the pools in " +
			"--datadir")
	}
	return nil
}

// DataDir is one entry of --datadir.
type DataDir struct {
	Name string `json:"name"`
	// Path of the pool; a relative one resolves against /.
	Path string `json:"path"`
	// Mount is the directory, Path itself or one above it, that must be a mount
	// point of the host before the pool is used.
	Mount string `json:"mount"`
	// NodeSelector are the labels of the nodes that have the pool; none are all nodes.
	NodeSelector map[string]string `json:"nodeSelector"`
	// SnapshotPath and SnapshotProvider are accepted because existing settings have
	// them; snapshots are not offered.
	SnapshotPath     string `json:"snapshotPath"`
	SnapshotProvider string `json:"snapshotProvider"`
	// Shared pools are not offered: the agent does not access them.
	Shared bool `json:"shared"`

	inner []string // names in the pool that are not for volumes
	// configured is set for a path of the local-path configuration. leftOut is why it can be no
	// pool and is not offered, "" if it can.
	configured bool
	leftOut    string
}

// snapshotsName is the directory with the snapshots of an older driver's pool. It is no volume.
const snapshotsName = "snapshots"

// notOffered returns why the pool is not offered, "" if it is.
func (d *DataDir) notOffered() string {
	if !d.Shared {
		return d.leftOut
	}
	return `--datadir says "shared": true, and pools shared between nodes are not offered: ` +
		`each node owns its pools alone; ` +
		"remove the pool from --datadir, or keep the older driver for it"
}

// ParseDataDirs parses the value of --datadir. It returns absolute and clean paths, in the given
// order. The error names the entry and what to do.
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

// reserveInner adds to each pool the names in it that lead to another pool or to the snapshots of
// one: they are not volumes. Pools that are left out may lead to a name that no pool can reserve.
func reserveInner(all []DataDir) {
	for i := range all {
		all[i].inner = []string{snapshotsName}
		for _, other := range all {
			if all[i].leftOut == "" && (other.leftOut == "" || all[i].canReserve(other.Path)) {
				all[i].reserve(other.Path)
			}
			if other.SnapshotPath != "" {
				all[i].reserve(filepath.Join("/", other.SnapshotPath))
			}
		}
	}
}

func (d *DataDir) reserve(path string) {
	if name := d.nameOf(path); name != "" && !slices.Contains(d.inner, name) {
		d.inner = append(d.inner, name)
	}
}

// nameOf returns the name in the pool that leads to a path, "" if none does.
func (d *DataDir) nameOf(path string) string {
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(d.Path, "/")+"/")
	if !below {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// canReserve reports whether the pool can have another one at that path, inside or elsewhere.
func (d *DataDir) canReserve(path string) bool {
	name := d.nameOf(path)
	return name == "" || volume.CheckName(name) == nil
}

// Pools returns the pools of an agent with these arguments and the environment of this process,
// without those that it leaves out, and its settings for their space. The error is that with which
// the agent would not start.
func Pools(args []string) (dirs []DataDir, reserve int64, overcommit float64, err error) {
	o, err := Parse("", args, io.Discard)
	if err != nil || o == nil {
		return nil, 0, 0, cmp.Or(err, errors.New("the arguments ask for help"))
	}
	return slices.DeleteFunc(o.layout.dirs, func(d DataDir) bool { return d.leftOut != "" }),
		contract.WholeBytes(&o.reserve), o.overcommit, nil
}
