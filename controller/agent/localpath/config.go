package localpath

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultNode is the entry of a nodePathMap for all nodes that have none of their own.
const DefaultNode = "DEFAULT_PATH_FOR_NON_LISTED_NODES"

// Config is a parsed and validated config.json.
type Config struct {
	every   nodePaths            // of every class; nil if classes is set
	classes map[string]nodePaths // by class
	shared  map[string]string    // by class: a directory that nodes share
	ignored []string
}

// nodePaths are the clean paths of a nodePathMap, by node.
type nodePaths map[string][]string

// document is config.json. Its keys may have any case, as the local-path provisioner's.
type document struct {
	volumes
	StorageClassConfigs map[string]volumes `json:"storageClassConfigs"`

	CmdTimeoutSeconds json.RawMessage `json:"cmdTimeoutSeconds"`
	SetupCommand      json.RawMessage `json:"setupCommand"`
	TeardownCommand   json.RawMessage `json:"teardownCommand"`
}

// volumes returns where the volumes of all classes, or of one, are.
type volumes struct {
	NodePathMap []struct {
		Node  string  `json:"node"`
		Paths []entry `json:"paths"`
	} `json:"nodePathMap"`
	SharedFileSystemPath string          `json:"sharedFileSystemPath"`
	MinSize              json.RawMessage `json:"minSize"`
	MaxSize              json.RawMessage `json:"maxSize"`
}

// entry is a path: a string, or an object that newer versions accept.
type entry struct {
	Path        string          `json:"path"`
	MaxCapacity json.RawMessage `json:"maxCapacity"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *entry) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(`"`)) {
		return json.Unmarshal(data, &e.Path)
	}
	type plain entry // without this method
	return decode(data, (*plain)(e))
}

// Parse parses config.json. The error names the key, its value and what to do.
func Parse(text string) (*Config, error) {
	var d document
	if err := decode([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("config.json is not the configuration of a local-path provisioner: %w; "+
			"known keys are nodePathMap and storageClassConfigs", err)
	}
	c := &Config{ignored: d.ignored()}
	var err error
	if len(d.StorageClassConfigs) == 0 {
		c.every, err = d.parse("")
		return c, err
	}
	if len(d.NodePathMap) > 0 || d.SharedFileSystemPath != "" {
		return nil, errors.New("config.json: storageClassConfigs has an effect only alone: leave out nodePathMap and " +
			"sharedFileSystemPath beside it, or move them into the entry of each class")
	}
	c.classes, c.shared = map[string]nodePaths{}, map[string]string{}
	for _, class := range slices.Sorted(maps.Keys(d.StorageClassConfigs)) {
		v := d.StorageClassConfigs[class]
		if v.SharedFileSystemPath != "" && len(v.NodePathMap) == 0 {
			c.shared[class] = v.SharedFileSystemPath
			continue
		}
		if c.classes[class], err = v.parse(class); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Ignored returns the keys of config.json that are set and have no effect.
func (c *Config) Ignored() []string { return c.ignored }

// decode is json.Unmarshal, but refuses unknown keys: a misspelt setting would not be applied.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON object")
	}
	return nil
}

func (d *document) ignored() (keys []string) {
	for _, k := range []struct {
		key   string
		value json.RawMessage
	}{{"cmdTimeoutSeconds", d.CmdTimeoutSeconds}, {"setupCommand", d.SetupCommand},
		{"teardownCommand", d.TeardownCommand}} {
		if isSet(k.value) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

func isSet(value json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", `""`, "0"}, string(value))
}

// parse returns the paths of the nodePathMap of a class, or of all classes if class is "".
func (v *volumes) parse(class string) (nodePaths, error) {
	at := "config.json"
	if class != "" {
		at += fmt.Sprintf(": storageClassConfigs: class %q", class)
	}
	switch {
	case v.SharedFileSystemPath != "":
		return nil, fmt.Errorf("%s: sharedFileSystemPath is %q, and directories that nodes share are not offered: each "+
			"node owns its volumes alone; remove it and list the paths of the nodes in nodePathMap, or keep the local-path "+
			"provisioner for these volumes", at,
			v.SharedFileSystemPath)
	case isSet(v.MinSize), isSet(v.MaxSize):
		return nil, fmt.Errorf("%s: minSize and maxSize are not supported; remove them, and limit claims with a LimitRange "+
			"of their namespace", at)
	case len(v.NodePathMap) == 0:
		return nil, fmt.Errorf("%s: nodePathMap is empty, so no node has a path: add an entry for node %s", at, DefaultNode)
	}
	all := nodePaths{}
	for i, n := range v.NodePathMap {
		if n.Node == "" {
			return nil, fmt.Errorf("%s: nodePathMap: entry %d names no node: set node to a Node's name or to %s", at, i+1,
				DefaultNode)
		}
		if _, twice := all[n.Node]; twice {
			return nil, fmt.Errorf("%s: nodePathMap: node %q has two entries: join their paths in one", at, n.Node)
		}
		paths, err := parsePaths(n.Paths)
		if err != nil {
			return nil, fmt.Errorf("%s: nodePathMap: node %q: %w", at, n.Node, err)
		}
		all[n.Node] = paths
	}
	return all, nil
}

// parsePaths returns the paths of one node, clean and not nil.
func parsePaths(entries []entry) ([]string, error) {
	paths := []string{}
	for _, e := range entries {
		path := filepath.Clean(e.Path)
		switch {
		case !strings.HasPrefix(e.Path, "/"):
			return nil, fmt.Errorf("path %q is not absolute: begin it with /", e.Path)
		case path == "/":
			return nil, fmt.Errorf("path %q is the root directory: name a directory for volumes alone", e.Path)
		case slices.Contains(paths, path):
			return nil, fmt.Errorf("path %q is listed twice: remove one", e.Path)
		case isSet(e.MaxCapacity):
			return nil, fmt.Errorf("path %q: maxCapacity is not supported: the agent allocates what the filesystem has "+
				"available; remove it, and keep space free with --reserve or give the directory a filesystem of that size", e.Path)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
