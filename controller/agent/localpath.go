package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/localpath"
	"kubevirt.io/hostpath-provisioner/controller/agent/provision"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

type localPathOptions struct {
	config     string
	namespaces []string        // in which the provisioner itself may run
	file       *localpath.File // set by check, from config; nil without it
}

// check reads the configuration, and what the pool at PV_DIR notes of former ones. The error names
// the key and what to do.
func (l *localPathOptions) check(served []contract.Dialect, node, pvDir string) (err error) {
	if l.config == "" {
		return nil
	}
	isLocalPath := func(d contract.Dialect) bool { return d.Provisioner == contract.LocalPathProvisioner }
	if !slices.ContainsFunc(served, isLocalPath) {
		return errors.New("--local-path-config is for the classes of the local-path provisioner: set --compat=local-path " +
			"(COMPAT), or leave it out")
	}
	hadVolumes, err := pooldir.ReadPaths(filepath.Join("/", pvDir))
	if err != nil {
		klog.Background().Error(err, "Former paths of the configuration are not known before PV_DIR is ready")
	}
	if l.file, err = localpath.Open(l.config, node, hadVolumes); err != nil {
		return fmt.Errorf("--local-path-config: %w", err)
	}
	return nil
}

// paths returns the directories of the configuration, and former ones that may have volumes; none
// without a configuration.
func (l *localPathOptions) paths() []string {
	if l.file == nil {
		return nil
	}
	return append(l.file.Paths().All(), l.file.Former()...)
}

// addLocalPaths adds a pool for each directory of the configuration that is none yet. The pool's
// name is its path. It leaves out those that can be no pool beside the others, whatever is there.
func (l *layout) addLocalPaths(paths []string) {
	for _, path := range paths {
		i := slices.IndexFunc(l.dirs, func(d DataDir) bool { return d.Path == path })
		if i < 0 {
			i = len(l.dirs)
			l.dirs = append(l.dirs, l.localPath(path))
		}
		if names := l.hostPath[contract.LocalPathProvisioner]; !slices.Contains(names, l.dirs[i].Name) {
			l.hostPath[contract.LocalPathProvisioner] = append(names, l.dirs[i].Name)
		}
	}
}

// localPath returns the pool of a directory of the configuration.
func (l *layout) localPath(path string) DataDir {
	d := DataDir{Name: path, Path: path, configured: true}
	for _, other := range l.dirs {
		switch {
		case other.leftOut != "":
		case other.Name == path:
			d.Name += " of config.json"
			d.leaveOut(fmt.Errorf("the pool in %s has this name; give that one another name in --datadir", other.Path))
		case !other.canReserve(path):
			d.leaveOut(fmt.Errorf("in the pool %s it leads to the name %q, which is reserved; name another directory",
				other.Path, other.nameOf(path)))
		case !d.canReserve(other.Path):
			d.leaveOut(fmt.Errorf("it leads to the pool %s by the name %q, which is reserved; name another directory",
				other.Path, d.nameOf(other.Path)))
		}
	}
	return d
}

// leaveOut makes the directory no pool of the agent. The first reason counts.
func (d *DataDir) leaveOut(why error) {
	if wrapped := new(fault.Error); errors.As(why, &wrapped) {
		why = wrapped.Err // it names the path again
	}
	if d.leftOut == "" {
		d.leftOut = fmt.Sprintf("config.json names this path, which can be no pool: %v", why)
	}
}

// leftOut returns why directories of the configuration are left out, by their paths.
func (l *layout) leftOut() map[string]string {
	all := map[string]string{}
	for _, d := range l.dirs {
		if d.leftOut != "" {
			all[d.Path] = d.leftOut
		}
	}
	return all
}

// pathsOf returns the directories for new volumes of a class, without those that are left out.
func (a *Agent) pathsOf(class string) ([]string, error) {
	all, err := a.localPath.file.Paths().Of(class)
	if err != nil {
		return nil, err
	}
	out := a.layout.leftOut()
	served := slices.DeleteFunc(slices.Clone(all), func(path string) bool { return out[path] != "" })
	if len(served) == 0 {
		return nil, fmt.Errorf("%s: %s", all[0], out[all[0]])
	}
	return served, nil
}

// newOriginal watches for the local-path provisioner, if the agent stands in for it.
func (a *Agent) newOriginal() {
	if len(a.layout.hostPath[contract.LocalPathProvisioner]) > 0 {
		a.original = localpath.NewOriginal(a.client, a.recorder, a.nodeName, a.localPath.namespaces,
			func() { a.loop.PoolChanged() })
		a.holds[contract.LocalPathProvisioner] = a.holdLocalPath
	}
}

// holdLocalPath returns why new claims of the local-path class wait, nil if they do not.
func (a *Agent) holdLocalPath() error {
	if !a.original.Known() {
		return provision.ErrNotKnown
	}
	return a.original.Running()
}
