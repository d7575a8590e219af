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

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/sleep"
	"kubevirt.io/hostpath-provisioner/controller/timing"
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
	reported   string // the error of the last change that was refused
}

// Open reads and parses the file for a node. The error names the file, the key, its value
// and what to do.
func Open(path, node string) (*File, error) {
	paths, ignored, err := read(path, node)
	if err != nil {
		return nil, err
	}
	if len(ignored) > 0 {
		klog.Background().Info("The agent needs no helper pod, so these keys have no effect", "file", path, "keys", ignored)
	}
	return &File{path: path, node: node, paths: paths}, nil
}

// Paths returns the node's directories as of Open.
func (f *File) Paths() *Paths { return &f.paths }

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

// Follow reads the file again until the context ends, and then returns nil. It returns
// ErrChanged once the file gives the node other directories; the caller ends the agent,
// which reads the file when it starts again. held returns the directories with volumes.
//
// Follow records an event on the Node and goes on if the file is wrong, or if it lacks a
// directory with volumes: an agent without that pool could neither grow nor delete them.
func (f *File) Follow(ctx context.Context, recorder *events.Recorder, held func() []string) error {
	log := klog.FromContext(ctx).WithValues("file", f.path)
	for sleep.For(ctx, rereadEvery) {
		now, _, err := read(f.path, f.node)
		if err == nil && now.Equal(&f.paths) {
			f.reported = ""
			continue
		}
		if err == nil {
			err = now.lacks(held())
		}
		if err == nil {
			recorder.Note(ctx, *events.Node(f.node), "configuration "+strings.Join(now.All(), ","), events.ConfigurationChanged, fmt.Sprintf(
				"the configuration changed, and the agent of node %s starts again: its directories are now %q", f.node, now.All()))
			return ErrChanged
		}
		if f.reported == err.Error() {
			continue
		}
		f.reported = err.Error()
		log.Error(err, "The configuration changed, and the agent goes on with the one before")
		recorder.Warn(ctx, *events.Node(f.node), "configuration "+err.Error(), events.ConfigurationRefused, fmt.Sprintf(
			"the agent of node %s goes on with the configuration before the change: %v", f.node, err))
	}
	return nil
}

// lacks returns an error if a directory with volumes is not one of the node's.
func (p *Paths) lacks(held []string) error {
	all := p.All()
	for _, path := range held {
		if !slices.Contains(all, path) {
			return fmt.Errorf("config.json no longer gives node %s the path %s, which has volumes: list it again until they are deleted", p.node, path)
		}
	}
	return nil
}
