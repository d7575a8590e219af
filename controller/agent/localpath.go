package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"kubevirt.io/hostpath-provisioner/controller/agent/localpath"
	"kubevirt.io/hostpath-provisioner/controller/agent/provision"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// localPathOptions are the flags of an agent that stands in for the local-path provisioner.
type localPathOptions struct {
	config     string
	namespaces []string        // in which the provisioner itself may run
	file       *localpath.File // set by check, from config; nil without it
}

// check reads the configuration. The error names the key and what to do.
func (l *localPathOptions) check(served []contract.Dialect, node string) (err error) {
	if l.config == "" {
		return nil
	}
	isLocalPath := func(d contract.Dialect) bool { return d.Provisioner == contract.LocalPathProvisioner }
	if !slices.ContainsFunc(served, isLocalPath) {
		return errors.New("--local-path-config is for the classes of the local-path provisioner: set --compat=local-path " +
			"(COMPAT), or leave it out")
	}
	if l.file, err = localpath.Open(l.config, node); err != nil {
		return fmt.Errorf("--local-path-config: %w", err)
	}
	return nil
}

// paths returns the directories of the configuration, none without one.
func (l *localPathOptions) paths() []string {
	if l.file == nil {
		return nil
	}
	return l.file.Paths().All()
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
func (a *agent) pathsOf(class string) ([]string, error) {
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
func (a *agent) newOriginal() {
	if len(a.layout.hostPath[contract.LocalPathProvisioner]) > 0 {
		a.original = localpath.NewOriginal(a.client, a.recorder, a.nodeName, a.localPath.namespaces,
			func() { a.loop.PoolChanged() })
		a.holds[contract.LocalPathProvisioner] = a.holdLocalPath
	}
}

// holdLocalPath returns why new claims of the local-path class wait, nil if they do not.
func (a *agent) holdLocalPath() error {
	if !a.original.Known() {
		return provision.ErrNotKnown
	}
	return a.original.Running()
}

// follow ends the agent when the configuration gives this node other directories.
func (a *agent) follow(ctx context.Context) error {
	return a.localPath.file.Follow(ctx, a.recorder, &localPools{agent: a, hung: map[string]bool{}})
}

// localPools implements localpath.Pools.
type localPools struct {
	*agent
	mu   sync.Mutex
	hung map[string]bool // paths that did not respond to a check; guarded by mu
}

// Check implements localpath.Pools.
func (l *localPools) Check(paths []string) error {
	next, err := l.newLayout(paths, l.check)
	if err != nil {
		return err
	}
	out, before := next.leftOut(), l.layout.leftOut()
	for _, path := range slices.Sorted(maps.Keys(out)) {
		if before[path] == "" {
			return fmt.Errorf("path %s: %s", path, out[path])
		}
	}
	return nil
}

// Returned implements localpath.Pools.
func (l *localPools) Returned() bool {
	before := l.layout.leftOut()
	if len(before) == 0 {
		return false
	}
	now, err := l.newLayout(l.localPath.paths(), l.check)
	return err == nil && len(now.leftOut()) < len(before)
}

// check is DataDir.check for a directory that is no pool of this agent yet. A path that does not
// respond is checked once: each check of it keeps a thread.
func (l *localPools) check(d *DataDir) error {
	if pool := l.poolAt(d.Path); pool != nil && pool.NotOffered() == "" && d.configured {
		return nil
	}
	l.mu.Lock()
	hung := l.hung[d.Path]
	l.mu.Unlock()
	if hung {
		return nil
	}
	err := d.check()
	if errors.As(err, new(*fault.HangError)) {
		l.mu.Lock()
		l.hung[d.Path] = true
		l.mu.Unlock()
	}
	return err
}

// Held implements localpath.Pools. PV_DIR is not held: it stays a pool.
func (l *localPools) Held(ctx context.Context, path string) string {
	pool := l.poolAt(path)
	if pool == nil || path == filepath.Join("/", l.pvDir) {
		return ""
	}
	switch volumes, err := pool.List(); {
	case err == nil && len(volumes) == 0:
		return ""
	case err == nil:
		return "has volumes: list it again until they are deleted"
	case pool.ID() != "":
		return "was open, is not ready, and may have volumes: list it again until it is ready and has none"
	case errors.Is(err, fault.ErrNotOpened):
		return "is not opened yet: list it again until the agent is ready"
	}
	// It was never open, and may be a wrong path. The last sweep may be old.
	if err := l.pvs.Sweep(ctx); err != nil {
		return "may have volumes: list it again until the agent can read all PVs"
	}
	if pv := l.namedBy(pool); pv != "" {
		return fmt.Sprintf("PV %s names: list it again until no PV names it", pv)
	}
	return ""
}

// namedBy returns a PV that names a directory in the pool, "" if there is none.
func (l *localPools) namedBy(pool *volume.Pool) string {
	for _, pv := range l.pvs.All() {
		if named, _ := l.pvs.Names(pv); named == pool {
			return pv.Name
		}
	}
	return ""
}

// poolAt returns the pool of the dialect at a path, nil if there is none.
func (l *localPools) poolAt(path string) *volume.Pool {
	for _, name := range l.layout.hostPath[contract.LocalPathProvisioner] {
		if pool := l.pools.Named(name); pool.Path() == path {
			return pool
		}
	}
	return nil
}
