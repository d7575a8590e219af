package localpath_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/localpath"
)

// The configuration that the local-path provisioner's own documentation shows.
const documented = `{
        "nodePathMap":[
        {
                "node":"DEFAULT_PATH_FOR_NON_LISTED_NODES",
                "paths":["/opt/local-path-provisioner"]
        },
        {
                "node":"node-01",
                "paths":["/opt/local-path-provisioner", "/data1"]
        },
        {
                "node":"node-03",
                "paths":[]
        }
        ]
}`

const byClass = `{"storageClassConfigs": {
	"fast":   {"nodePathMap": [{"node": "node-01", "paths": ["/nvme"]}, {"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["/ssd"]}]},
	"slow":   {"nodePathMap": [{"node": "node-01", "paths": ["/hdd1", {"path": "/hdd2/"}]}]},
	"shared": {"sharedFilesystemPath": "/nfs"}
}}`

func parse(t *testing.T, text string) *localpath.Config {
	t.Helper()
	c, err := localpath.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPathsOfANode(t *testing.T) {
	for _, row := range []struct {
		text, node, class string
		want              []string // nil: an error
		words             string   // in the error
		pools             []string
	}{
		{documented, "node-01", "any", []string{"/opt/local-path-provisioner", "/data1"}, "", []string{"/data1", "/opt/local-path-provisioner"}},
		{documented, "node-02", "any", []string{"/opt/local-path-provisioner"}, "", []string{"/opt/local-path-provisioner"}},
		{documented, "node-03", "any", nil, "gives node node-03 no path", nil},
		{`{"nodePathMap":[{"node":"node-01","paths":["/a"]}]}`, "node-02", "any", nil, "add one to nodePathMap", nil},
		{byClass, "node-01", "fast", []string{"/nvme"}, "", []string{"/hdd1", "/hdd2", "/nvme"}},
		{byClass, "node-01", "slow", []string{"/hdd1", "/hdd2"}, "", []string{"/hdd1", "/hdd2", "/nvme"}},
		{byClass, "node-02", "fast", []string{"/ssd"}, "", []string{"/ssd"}},
		{byClass, "node-02", "slow", nil, "gives node node-02 no path", []string{"/ssd"}},
		{byClass, "node-02", "shared", nil, `sharedFileSystemPath "/nfs"`, []string{"/ssd"}},
		{byClass, "node-02", "other", nil, `it has ["fast" "slow"]`, []string{"/ssd"}},
	} {
		paths := parse(t, row.text).Paths(row.node)
		got, err := paths.Of(row.class)
		if !slices.Equal(got, row.want) || (err == nil) != (row.want != nil) || err != nil && !strings.Contains(err.Error(), row.words) {
			t.Errorf("class %s on %s: %q, %v; want %q, words %q", row.class, row.node, got, err, row.want, row.words)
		}
		if got := paths.All(); !slices.Equal(got, row.pools) {
			t.Errorf("pools of %s: %q, want %q", row.node, got, row.pools)
		}
	}
}

func TestRefusedConfigurations(t *testing.T) {
	const node = `{"node":"n","paths":["/a"]}`
	for text, want := range map[string]string{
		``:                             "config.json is not",
		`{`:                            "config.json is not",
		`[]`:                           "config.json is not",
		`{} {}`:                        "text follows",
		`{"nodePaths":[` + node + `]}`: `unknown field "nodePaths"`,
		`{}`:                           "nodePathMap is empty",
		`{"nodePathMap":[` + node + `],"sharedFileSystemPath":"/nfs"}`:                 `sharedFileSystemPath is "/nfs"`,
		`{"sharedFileSystemPath":"/nfs"}`:                                              "list the paths of the nodes in nodePathMap",
		`{"nodePathMap":[` + node + `],"storageClassConfigs":{"c":{}}}`:                "only alone",
		`{"storageClassConfigs":{"c":{}}}`:                                             `class "c": nodePathMap is empty`,
		`{"storageClassConfigs":{"c":{"nodePathMap":[` + node + `],"maxSize":"1Gi"}}}`: `class "c": minSize and maxSize`,
		`{"nodePathMap":[` + node + `,` + node + `]}`:                                  `node "n" has two entries`,
		`{"nodePathMap":[{"paths":["/a"]}]}`:                                           "entry 1 names no node",
		`{"nodePathMap":[{"node":"n","paths":["data"]}]}`:                              `node "n": path "data" is not absolute`,
		`{"nodePathMap":[{"node":"n","paths":[""]}]}`:                                  `path "" is not absolute`,
		`{"nodePathMap":[{"node":"n","paths":["//"]}]}`:                                "root directory",
		`{"nodePathMap":[{"node":"n","paths":["/a/../.."]}]}`:                          "root directory",
		`{"nodePathMap":[{"node":"n","paths":["/a","/a/"]}]}`:                          `path "/a/" is listed twice`,
		`{"nodePathMap":[{"node":"n","paths":[{"path":"/a","maxCapacity":"1Gi"}]}]}`:   "maxCapacity is not supported",
		`{"nodePathMap":[{"node":"n","paths":[{"path":"/a","maxCapacty":"1Gi"}]}]}`:    "maxCapacty",
		`{"nodePathMap":[{"node":"n","paths":[7]}]}`:                                   "config.json is not",
	} {
		if _, err := localpath.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want words %q", text, err, want)
		}
	}
}

// Keys that only helper pods need have no effect, and do not keep the agent from starting.
func TestIgnoredKeys(t *testing.T) {
	c := parse(t, `{"nodePathMap":[{"node":"n","paths":["/a"]}],"setupCommand":"/manager","teardownCommand":null,"cmdTimeoutSeconds":30}`)
	if got := c.Ignored(); !slices.Equal(got, []string{"cmdTimeoutSeconds", "setupCommand"}) {
		t.Errorf("ignored %q", got)
	}
}

func TestEqual(t *testing.T) {
	a, same := parse(t, documented).Paths("node-02"), parse(t, `{"nodePathMap":[{"node":"node-02","paths":["/opt/local-path-provisioner/"]}]}`).Paths("node-02")
	other := parse(t, documented).Paths("node-01")
	if !a.Equal(&same) || a.Equal(&other) {
		t.Errorf("%+v, %+v, %+v", a, same, other)
	}
}

// Each path is absolute and clean, and none is the root.
func FuzzParse(f *testing.F) {
	for _, text := range []string{documented, byClass, `{"sharedFileSystemPath":"/nfs"}`, `{"nodePathMap":null}`, `{"storageClassConfigs":{"c":null}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := localpath.Parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), "config.json") {
				t.Errorf("%v: in which file?", err)
			}
			return
		}
		if !json.Valid([]byte(text)) {
			t.Error("it is no JSON")
		}
		paths := c.Paths("node-01")
		for _, path := range paths.All() {
			if !strings.HasPrefix(path, "/") || path == "/" || strings.HasSuffix(path, "/") || strings.Contains(path, "/../") {
				t.Errorf("path %q", path)
			}
		}
	})
}
