package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/localpath"
	"kubevirt.io/hostpath-provisioner/controller/onlynode"
	"kubevirt.io/hostpath-provisioner/controller/provision"
	"kubevirt.io/hostpath-provisioner/controller/pvs"
)

// newOnlyNode makes the guard of a served dialect that is for clusters of one node.
func (a *agent) newOnlyNode() {
	for _, d := range a.provision.dialects {
		if d.OnlyNode {
			a.onlyNode = onlynode.New(a.client, a.nodeName, a.recorder, a.poolChanged)
			a.holds[d.Provisioner] = a.onlyNode.Err
		}
	}
}

// readNodes reads what admit and hold need.
func (a *agent) readNodes(ctx context.Context) error {
	if a.onlyNode == nil {
		return nil
	}
	return a.onlyNode.Read(ctx)
}

// admit returns an error if the cluster has several nodes and the agent has no volume: nothing is left
// for it to do. The agent of a node that has volumes stays, and deletes and grows them.
func (a *agent) admit() error {
	if a.onlyNode == nil || a.onlyNode.Err() == nil {
		return nil
	}
	for _, s := range a.served() {
		if !s.OnlyNode || !a.isEmpty(s) {
			return nil
		}
	}
	return fmt.Errorf("%w; this node has no volume of that provisioner", a.onlyNode.Err())
}

// isEmpty reports whether the pools of a dialect have no volume, and no PV names one. A pool that is not
// ready may have some.
func (a *agent) isEmpty(s pvs.Served) bool {
	for _, pool := range s.Pools {
		if volumes, err := pool.List(); err != nil || len(volumes) > 0 {
			return false
		}
	}
	for _, pv := range a.pvs.All() {
		if pool, _ := a.pvs.Names(pv); slices.Contains(s.Pools, pool) {
			return false
		}
	}
	return true
}

// hold returns why new claims of a provisioner wait, nil if they do not.
func (a *agent) hold(provisioner string) error {
	if hold := a.holds[provisioner]; hold != nil {
		return hold()
	}
	return nil
}

// served returns the dialects that the agent serves, with their pools.
func (a *agent) served() (all []pvs.Served) {
	for _, d := range a.provision.dialects {
		s := pvs.Served{Dialect: d}
		if d.Provisioner == class.LocalPathProvisioner && a.localPath.file != nil {
			s.Paths = a.localPath.file.Paths().Of
		}
		for _, name := range a.layout.hostPath[d.Provisioner] {
			s.Pools = append(s.Pools, a.pools.Named(name))
		}
		all = append(all, s)
	}
	return all
}

// localPathOptions are the flags of an agent that stands in for the local-path provisioner.
type localPathOptions struct {
	config string
	text   string // of namespaces

	// Set by check, from config and text.
	file       *localpath.File // nil without the flag
	namespaces []string        // in which the provisioner itself may run
}

func (l *localPathOptions) register(f *pflag.FlagSet) {
	f.StringVar(&l.config, "local-path-config", "",
		"config.json of the ConfigMap local-path-config, for --compat=local-path: more directories besides --pv-dir, and which of them serve a class. The agent starts again when they change")
	f.StringVar(&l.text, "local-path-namespaces", localpath.DefaultNamespaces,
		"namespaces, with commas between, in which a Deployment local-path-provisioner is the local-path provisioner: with --compat=local-path new claims wait while it runs. A Deployment of that name elsewhere is only an event")
}

// check reads the configuration. The error names the key and what to do.
func (l *localPathOptions) check(served []class.Dialect, node string) (err error) {
	if l.namespaces, err = localpath.ParseNamespaces(l.text); err != nil {
		return fmt.Errorf("--local-path-namespaces: %w", err)
	}
	if l.config == "" {
		return nil
	}
	if !slices.ContainsFunc(served, func(d class.Dialect) bool { return d.Provisioner == class.LocalPathProvisioner }) {
		return errors.New("--local-path-config is for the classes of the local-path provisioner: set --compat=local-path (COMPAT), or leave it out")
	}
	if l.file, err = localpath.Open(l.config, node); err != nil {
		return fmt.Errorf("--local-path-config: %w", err)
	}
	return nil
}

// addLocalPaths adds a pool for each directory of the configuration that is none yet. The pool's
// name is its path.
func (l *layout) addLocalPaths(paths []string) {
	for _, path := range paths {
		i := slices.IndexFunc(l.dirs, func(d DataDir) bool { return d.Path == path })
		if i < 0 {
			i = len(l.dirs)
			l.dirs = append(l.dirs, DataDir{Name: path, Path: path})
		}
		if names := l.hostPath[class.LocalPathProvisioner]; !slices.Contains(names, l.dirs[i].Name) {
			l.hostPath[class.LocalPathProvisioner] = append(names, l.dirs[i].Name)
		}
	}
}

// newOriginal watches for the local-path provisioner, if the agent stands in for it.
func (a *agent) newOriginal() {
	if len(a.layout.hostPath[class.LocalPathProvisioner]) > 0 {
		a.original = localpath.NewOriginal(a.client, a.recorder, a.nodeName, a.localPath.namespaces, func() { a.loop.PoolChanged() })
		a.holds[class.LocalPathProvisioner] = a.holdLocalPath
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
	return a.localPath.file.Follow(ctx, a.recorder, a.held)
}

// held returns the directories of the configuration whose pools have volumes, or are not ready. PV_DIR
// is left out: it stays a pool.
func (a *agent) held() (paths []string) {
	for _, name := range a.layout.hostPath[class.LocalPathProvisioner] {
		pool := a.pools.Named(name)
		if volumes, err := pool.List(); (err != nil || len(volumes) > 0) && pool.Path() != filepath.Join("/", a.pvDir) {
			paths = append(paths, pool.Path())
		}
	}
	return paths
}
