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
	"kubevirt.io/hostpath-provisioner/controller/provision"
)

// localPathOptions is the flag of an agent that stands in for the local-path provisioner.
type localPathOptions struct {
	config string
	file   *localpath.File // set by check; nil without the flag
}

func (l *localPathOptions) register(f *pflag.FlagSet) {
	f.StringVar(&l.config, "local-path-config", "",
		"config.json of the ConfigMap local-path-config, for --compat=local-path: more directories besides --pv-dir, and which of them serve a class. The agent starts again when they change")
}

// check reads the configuration. The error names the key and what to do.
func (l *localPathOptions) check(served []class.Dialect, node string) (err error) {
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
		a.original = localpath.NewOriginal(a.client, a.recorder, a.nodeName, func() { a.loop.PoolChanged() })
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
