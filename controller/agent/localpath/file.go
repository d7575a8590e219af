package localpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// rereadEvery is how often the file is read again. The kubelet replaces it within about
// a minute after the ConfigMap was changed.
var rereadEvery = timing.Scaled(10 * time.Second)

// ErrChanged is the result of Follow if the agent has to start again.
var ErrChanged = errors.New("the configuration changed")

// File is config.json on a node, which the kubelet takes from the ConfigMap.
type File struct {
	path, node string
	paths      Paths
	former     []string        // directories that the node had, and that may have volumes
	reported   string          // the error of the last change that was refused
	kept       map[string]bool // former directories of which an event has the reason
}

// Open reads and parses the file for a node. Of the directories that had volumes under an earlier
// configuration, those that the file lacks are Former. The error names the file, the key, its
// value and what to do.
func Open(path, node string, hadVolumes []string) (*File, error) {
	paths, ignored, err := read(path, node)
	if err != nil {
		return nil, err
	}
	if len(ignored) > 0 {
		klog.Background().Info("The agent needs no helper pod, so these keys have no effect", "file", path, "keys", ignored)
	}
	all := paths.All()
	former := slices.DeleteFunc(slices.Clone(hadVolumes), func(dir string) bool { return slices.Contains(all, dir) })
	return &File{path: path, node: node, paths: paths, former: former, kept: map[string]bool{}}, nil
}

// Paths returns the node's directories as of Open.
func (f *File) Paths() *Paths { return &f.paths }

// Former returns the directories that the configuration lacked at Open, and that had volumes. They
// stay pools, without new volumes.
func (f *File) Former() []string { return f.former }

func read(path, node string) (p Paths, ignored []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return p, nil, fmt.Errorf("read the configuration: %w", err)
	}
	c, err := Parse(string(text))
	if err != nil {
		return p, nil, fmt.Errorf("%s: %w", path, err)
	}
	return c.Paths(node), c.Ignored(), nil
}

// Pools is what Follow asks about the directories of the node.
type Pools interface {
	// Check returns an error if the agent could not start with these directories, or would leave
	// one out that it does not leave out now.
	Check(paths []string) error
	// Returned reports whether one that the agent left out at its start can be a pool now.
	Returned() bool
	// Writable reports whether Note can note anything now. Without that no directory is given up: the
	// next start would find it noted, and end for it again.
	Writable() bool
	// Held returns why a directory must stay, such as "has volumes", "" if it need not.
	Held(ctx context.Context, path string) string
	// Note notes which directories have volumes, for the next Open. again is set if the agent has to
	// start again, because one is noted that it did not know at its start, and noted if what Note
	// found is on the disk.
	Note(ctx context.Context, configured []string) (again, noted bool)
}

// Follow reads the file again until the context ends, and then returns nil. It returns
// ErrChanged once the file gives the node other directories; the caller ends the agent,
// which reads the file when it starts again.
//
// Follow records an event on the Node and goes on if the agent could not start with the
// file, if a directory in it can be no pool, or if it lacks one that is held: an agent
// without that pool could neither grow nor delete its volumes. It records one event for each
// Former directory that is held, and also returns ErrChanged once one is held no more and that is
// noted.
func (f *File) Follow(ctx context.Context, recorder *events.Recorder, pools Pools) error {
	log := klog.FromContext(ctx).WithValues("file", f.path)
	for sleep.For(ctx, rereadEvery) {
		now, _, err := read(f.path, f.node)
		changed := false
		if err == nil {
			changed, err = f.changed(ctx, &now, pools)
		}
		left := !changed && pools.Writable() && !f.keepFormer(ctx, recorder, pools)
		// Noted last, so that the next start does not keep a directory that is held no more.
		again, noted := pools.Note(ctx, f.paths.All())
		again = again || left && noted
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && (changed || again):
			recorder.Note(ctx, *events.Node(f.node), "configuration "+strings.Join(now.All(), ","), events.ConfigurationChanged,
				fmt.Sprintf(
					"the configuration changed, and the agent of node %s starts again: its directories are now %q", f.node, now.All()))
			return ErrChanged
		case err == nil:
			f.reported = ""
		case f.reported != err.Error():
			f.reported = err.Error()
			log.Error(err, "The configuration changed, and the agent goes on with the one before")
			recorder.Warn(ctx, *events.Node(f.node), "configuration "+err.Error(), events.ConfigurationRefused, fmt.Sprintf(
				"the agent of node %s goes on with the configuration before the change: %v", f.node, err))
		}
	}
	return nil
}

// keepFormer records one event for each former directory that is held, and reports whether all are.
func (f *File) keepFormer(ctx context.Context, recorder *events.Recorder, pools Pools) bool {
	for _, path := range f.former {
		why := pools.Held(ctx, path)
		if why == "" {
			return false
		}
		if f.kept[path] || ctx.Err() != nil {
			continue
		}
		f.kept[path] = true
		recorder.Warn(ctx, *events.Node(f.node), "former path "+path, events.ConfigurationRefused, fmt.Sprintf(
			"config.json gives node %s no longer the path %s, which %s. Until then it stays a pool, without new volumes",
			f.node, path, why))
	}
	return true
}

// changed reports whether the agent has to start again with these paths, or why it must not.
func (f *File) changed(ctx context.Context, now *Paths, pools Pools) (bool, error) {
	if now.Equal(&f.paths) {
		return pools.Returned(), nil
	}
	all := now.All()
	if err := pools.Check(all); err != nil {
		return false, err
	}
	for _, path := range f.paths.All() {
		if slices.Contains(all, path) {
			continue
		}
		if why := pools.Held(ctx, path); why != "" {
			return false, fmt.Errorf("config.json no longer gives node %s the path %s, which %s", f.node, path, why)
		}
	}
	return true, nil
}
