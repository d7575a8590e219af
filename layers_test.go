// Package layers holds the rules of docs/architecture.md that a test can keep.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "kubevirt.io/hostpath-provisioner"

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath string
	Doc        string
	GoFiles    []string

	Imports, TestImports, XTestImports []string
}

// packages returns the packages of the module. It reads their directories, too: the go command
// takes the result of a test from its cache unless something changed that the test itself has read,
// and `go list` is another program.
func packages(t *testing.T, flags ...string) []listed {
	t.Helper()
	for _, dir := range []string{"api", "cmd", "controller", "manifests", "volume"} {
		if err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", slices.Concat([]string{"list", "-json=ImportPath,Doc,GoFiles,Imports,TestImports,XTestImports"}, flags, []string{"./..."})...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// arrows are the import rules: a package below `from` may import, of what lies
// outside the standard library, only what begins with one of `may`, and never
// what begins with one of `never`.
var arrows = []struct {
	from       string
	may, never []string
	why        string
}{
	{from: "volume", may: []string{module + "/volume", "golang.org/x/sys"},
		why: "volume has never heard of Kubernetes and returns values and errors"},
	{from: "volume/fault", may: []string{"golang.org/x/sys"},
		why: "every package below volume returns these errors"},
	{from: "volume/bounded", may: []string{module + "/volume/fault"},
		why: "waiting for a disk has nothing to do with what is on it"},
	{from: "volume/record", may: []string{module + "/volume/fault", module + "/volume/file"},
		why: "a record is read and written without a pool"},
	{from: "volume/pooldir", may: []string{"golang.org/x/sys", module + "/volume/bounded", module + "/volume/fault",
		module + "/volume/file", module + "/volume/mount", module + "/volume/quota", module + "/volume/tree"},
		why: "the pool's directory is opened without knowing what is kept in it"},
	{from: "volume/trash", may: []string{"golang.org/x/sys", module + "/volume/bounded", module + "/volume/fault",
		module + "/volume/file", module + "/volume/pooldir", module + "/volume/record", module + "/volume/tree"},
		why: "the trash is emptied without knowing how volumes are made"},
	{from: "volume/space", may: []string{"golang.org/x/sys", module + "/volume/bounded", module + "/volume/fault",
		module + "/volume/quota", module + "/volume/record", module + "/volume/tree"},
		why: "space is accounted for without opening a pool"},
	{from: "volume/volumequota", may: []string{"golang.org/x/sys", module + "/volume/fault", module + "/volume/pooldir",
		module + "/volume/quota", module + "/volume/record", module + "/volume/tree"},
		why: "quotas are set without a way to change records"},
	{from: "volume/inspect", may: []string{"golang.org/x/sys", module + "/volume/bounded", module + "/volume/volumequota",
		module + "/volume/fault", module + "/volume/file", module + "/volume/pooldir", module + "/volume/quota",
		module + "/volume/record", module + "/volume/space", module + "/volume/trash"},
		why: "a pool is read without a way to change it"},
	{from: "volume/health", may: []string{"golang.org/x/sys", module + "/volume/file", module + "/volume/mount",
		module + "/volume/pooldir", module + "/volume/record", module + "/volume/space"},
		why: "volumes are checked without a way to change them"},
	{from: "volume/poolmount", may: []string{"golang.org/x/sys", module + "/volume/file", module + "/volume/mount"},
		why: "the directory of a pool is mounted without opening the pool"},
	{from: "volume/diskid", may: nil,
		why: "an ID is read without a disk"},
	{from: "volume/disk", may: []string{"golang.org/x/sys", module + "/volume/diskid", module + "/volume/mount"},
		why: "a raw disk has no pool"},
	{from: "volume/file", may: []string{"golang.org/x/sys", module + "/volume/fault", module + "/volume/tree"},
		why: "files know nothing of pools and records"},
	{from: "api", may: []string{"k8s.io/api", "k8s.io/apimachinery"},
		why: "the resource is described without a way to serve it"},
	{from: "controller", never: []string{module + "/cmd", module + "/e2e"},
		why: "arrows go from cmd to controller"},
	{from: "controller/simulation/apiserver", never: []string{module},
		why: "the simulated API server knows Kubernetes, and nothing of the product"},
	{from: "controller/kube/contract", never: []string{module + "/controller", module + "/cmd", module + "/volume/volumequota", module + "/volume/file",
		module + "/volume/mount", module + "/volume/pooldir", module + "/volume/quota", module + "/volume/space", module + "/volume/tree"},
		why: "contract has what both sides of a claim agree on, in terms of volume and its records; it decides nothing"},
	{from: "controller/agent/provision", never: []string{"google.golang.org/grpc"},
		why: "the provisioner does not speak gRPC"},
	{from: "controller/agent/csi", never: []string{"k8s.io/client-go"},
		why: "the gRPC services do not ask the API server"},
	{from: "controller/agent/csi/target", may: []string{module + "/volume", "golang.org/x/sys", "google.golang.org/grpc"},
		why: "a target is mounted without knowing the request"},
	{from: "controller/agent/csi/inline", may: []string{module + "/volume", module + "/controller/kube/sleep", "k8s.io/klog/v2"},
		why: "inline volumes are made and deleted without knowing the request or the target"},
}

// floors are the packages of the operator, from the ground up. A package imports those of lower
// floors alone, so that what is shared lies below, and no package gets the tools of one above it.
var floors = [][]string{
	{"apply", "installed", "poolrecord", "agentstatus", "optional", "tlsprofile", "metrics", "pvwrite"},
	{"claimpools/objects", "constraints", "former"},
	{"claimpools/release", "metricsauth"},
	{"claimpools", "layout", "templatenodes", "nodegone", "diskpvs", "waiting", "removal", "installed/installedtest", "apply/applytest"},
	{"admission"},
	{"install"},
	{""},
}

func TestFloorsOfTheOperator(t *testing.T) {
	const operator = module + "/controller/operator"
	floorOf := func(path string) int {
		return slices.IndexFunc(floors, func(all []string) bool {
			return slices.Contains(all, strings.TrimPrefix(strings.TrimPrefix(path, operator), "/"))
		})
	}
	for _, p := range packages(t) {
		if !below(p.ImportPath, operator) {
			continue
		}
		own := floorOf(p.ImportPath)
		if own < 0 {
			t.Errorf("%s is on no floor of the operator", p.ImportPath)
		}
		for _, imported := range p.Imports {
			if below(imported, operator) && floorOf(imported) >= own {
				t.Errorf("%s imports %s, which is not on a lower floor of the operator", p.ImportPath, imported)
			}
		}
	}
}

// A package of the operator is read in one sitting. What outgrows that is cut along its parts.
func TestPackagesOfTheOperatorAreSmall(t *testing.T) {
	const most = 1300
	lines := map[string]int{}
	for path, text := range sources(t) {
		if below(filepath.ToSlash(path), "controller/operator") {
			lines[filepath.Dir(path)] += strings.Count(text, "\n")
		}
	}
	for dir, n := range lines {
		if n > most {
			t.Errorf("%s has %d lines, want at most %d: move a part of it to a package on a lower floor", dir, n, most)
		}
	}
	if len(lines) < len(floors) {
		t.Errorf("%d packages were counted", len(lines))
	}
}

func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			for _, a := range arrows {
				if below(p.ImportPath, module+"/"+a.from) && breaks(imported, a.may, a.never) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imported, a.why)
				}
			}
		}
	}
}

// elsewhere are the packages of this module that the plugin of kubectl may need, and what is below
// controller/plugin: they build on the computers of people.
var elsewhere = []string{"api/v1beta1", "cmd/kubectl-hpp", "controller/kube/contract", "controller/kube/events", "controller/kube/identity",
	"controller/kube/live", "controller/kube/nodechoice", "controller/kube/permissions", "controller/kube/recovery", "volume/diskid", "volume/fault", "volume/inspect", "volume/record", "volume/space"}

func TestPluginBuildsElsewhere(t *testing.T) {
	for _, system := range []string{"darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "./cmd/kubectl-hpp", "./controller/kube/contract")
		cmd.Env = append(os.Environ(), "GOOS="+system)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", system, err, out)
		}
		for line := range strings.Lines(string(out)) {
			path, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
			own := strings.TrimPrefix(path, module+"/")
			if !below(path, module) {
				continue
			}
			if !slices.Contains(elsewhere, own) && !below(own, "controller/plugin") {
				t.Errorf("on %s it needs %s, which is for nodes: put what needs that into a file with go:build linux", system, path)
			}
			if slices.Contains(strings.Fields(imports), "golang.org/x/sys/unix") {
				t.Errorf("on %s %s uses golang.org/x/sys/unix", system, path)
			}
		}
	}
}

func breaks(imported string, may, never []string) bool {
	for _, n := range never {
		if strings.HasPrefix(imported, n) {
			return true
		}
	}
	if may == nil || !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		return false // no list, or the standard library
	}
	for _, m := range may {
		if below(imported, m) {
			return false
		}
	}
	return true
}

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// A process is a folder below controller. Tests that span processes are in cmd or e2e, so tests
// keep to this, too.
func TestProcessesDoNotImportEachOther(t *testing.T) {
	process := func(path string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, module+"/controller/"), "/")
		return name
	}
	for _, p := range packages(t, "-tags=disk,faults,vm,power") {
		if !below(p.ImportPath, module+"/controller") {
			continue
		}
		own := process(p.ImportPath)
		if own == "simulation" { // it runs them all
			continue
		}
		if !slices.Contains([]string{"agent", "operator", "disks", "poolholder", "plugin", "kube"}, own) {
			t.Errorf("%s is in the folder of no process; what processes share is in controller/kube", p.ImportPath)
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if other := process(imported); below(imported, module+"/controller") && other != own && other != "kube" {
				t.Errorf("%s imports %s: what processes share is in controller/kube, and imports none of them", p.ImportPath, imported)
			}
		}
	}
}

// docs/architecture.md says of every package why it exists, and of no other.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9/-]+)` \\|").FindAllStringSubmatch(table, -1) {
		rows[m[1]] = true
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("docs/architecture.md has a row for %s: %v", m[1], err)
		}
	}
	for _, p := range packages(t, "-tags=disk,faults,vm,power") {
		if path := strings.TrimPrefix(p.ImportPath, module+"/"); p.ImportPath != module && !rows[path] {
			t.Errorf("docs/architecture.md has no row for the package %s", path)
		}
	}
}

// CONTRIBUTING.md says for every package what to change there. What it names exists; a package
// below one that it names is part of that.
func TestContributingCoversEveryPackage(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| to change | start in |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for row := range strings.Lines(table) {
		dir := ""
		for _, m := range regexp.MustCompile("`([a-z0-9/._-]+)`").FindAllStringSubmatch(row[strings.LastIndex(strings.TrimRight(row, "| \n"), "|"):], -1) {
			path := m[1]
			if !strings.Contains(path, "/") && dir != "" { // beside the one before
				path = dir + "/" + path
			}
			if dir = filepath.Dir(path); dir == "." {
				dir = ""
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("CONTRIBUTING.md names %s: %v", path, err)
			}
			named = append(named, strings.TrimSuffix(path, filepath.Base(path)), path)
		}
	}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		own := strings.HasPrefix(path, "controller/") || strings.HasPrefix(path, "volume/")
		test := strings.HasSuffix(path, "test") || strings.Contains(path, "internal/")
		if own && !test && !slices.ContainsFunc(named, func(n string) bool {
			return n == path || strings.HasSuffix(n, "/") && n == path+"/" || strings.HasPrefix(path, n+"/") && strings.Count(n, "/") > 1
		}) {
			t.Errorf("CONTRIBUTING.md does not say what to change in %s", path)
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// What tests change in a program by a variable is in files with the tag faults alone. A released
// program is built without the tag.
func TestReleasedProgramsReadNoVariableOfTests(t *testing.T) {
	released := sources(t)
	var variables []string
	for path, text := range sources(t, "-tags=faults") {
		if released[path] == "" {
			variables = append(variables, regexp.MustCompile(`"HPP_\w+"`).FindAllString(text, -1)...)
		}
	}
	if len(variables) < 2 {
		t.Errorf("variables %v, want that of kills and that of times", variables)
	}
	for path, text := range released {
		for _, v := range variables {
			if strings.Contains(text, v) {
				t.Errorf("%s, which is in released programs, has the variable %s", path, v)
			}
		}
	}
}

// Quantity.Value wraps: a claim of 2^64+1 bytes would get a volume of one. One function converts
// sizes.
func TestSizesAreConvertedByOneFunction(t *testing.T) {
	const converts = "controller/kube/contract/size.go"
	unchecked := regexp.MustCompile(`\.(Value|MilliValue)\(\)|\.(ScaledValue|AsApproximateFloat64)\(`)
	for path, text := range sources(t) {
		found := unchecked.FindAllString(text, -1)
		switch {
		case path == converts && len(found) == 0:
			t.Errorf("%s converts nothing any more", path)
		case path != converts && len(found) > 0:
			t.Errorf("%s calls %s of a quantity; use contract.WholeBytes", path, found)
		}
	}
}

// A pause that doubles has bounds at both ends, and they are easy to get wrong. One function has them.
func TestPausesAreDoubledByOneFunction(t *testing.T) {
	items := "controller/kube/live/pages.go" // doubles the items of a page
	doubles := regexp.MustCompile(`\bmin\([^\n]*\b2\*`)
	for path, text := range sources(t) {
		if found := doubles.FindString(text); found != "" && path != items && path != "controller/kube/sleep/sleep.go" {
			t.Errorf("%s has %q; use sleep.Doubled", path, found)
		}
	}
}

// sources are the files of the module's packages, tests excepted, by their paths.
func sources(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range packages(t, flags...) {
		for _, name := range p.GoFiles {
			path := filepath.Join("."+strings.TrimPrefix(p.ImportPath, module), name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(text)
		}
	}
	return all
}
