package localpath

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Paths are the directories that a configuration gives one node. The zero value gives it none.
type Paths struct {
	node    string
	every   []string            // of every class; nil if classes differ or the node has none
	classes map[string][]string // by class; nil if the classes do not differ
	shared  map[string]string   // by class: a directory that nodes share
}

// Paths returns the directories of a node: its own entry, or that of DefaultNode.
func (c *Config) Paths(node string) Paths {
	p := Paths{node: node, every: c.every.of(node), shared: c.shared}
	if c.classes == nil {
		return p
	}
	p.classes = map[string][]string{}
	for class, paths := range c.classes {
		p.classes[class] = paths.of(node)
	}
	return p
}

func (n nodePaths) of(node string) []string {
	if paths, listed := n[node]; listed {
		return paths
	}
	return n[DefaultNode]
}

// All returns the directories of all classes, sorted, each once. They are the node's pools.
func (p *Paths) All() []string {
	all := slices.Clone(p.every)
	for _, paths := range p.classes {
		all = append(all, paths...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Of returns the directories for new volumes of a class. The error is for the user of a claim.
func (p *Paths) Of(class string) ([]string, error) {
	if path, shared := p.shared[class]; shared {
		return nil, fmt.Errorf("config.json has sharedFileSystemPath %q for class %q, and directories that nodes share "+
			"are not offered: use another class, or keep the local-path provisioner for this one", path, class)
	}
	paths := p.every
	if p.classes != nil {
		var listed bool
		if paths, listed = p.classes[class]; !listed {
			return nil, fmt.Errorf("config.json has storageClassConfigs, and none for class %q: add one; it has %q",
				class, slices.Sorted(maps.Keys(p.classes)))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("config.json gives node %s no path for volumes of class %q: add one to nodePathMap, or "+
			"choose another node", p.node, class)
	}
	return paths, nil
}

// Equal reports whether both give the same node the same directories.
func (p *Paths) Equal(other *Paths) bool { return reflect.DeepEqual(p, other) }
