package proof

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every test of the tree runs in a shard, and tiers.txt names nothing that is not there.
func TestEveryTestHasItsPlace(t *testing.T) {
	tiers, tests := loaded(t)
	for _, problem := range tiers.Assign(tests) {
		t.Error(problem)
	}
	for _, shard := range tiers.Shards {
		if stepNamed(tier2, shard) == nil {
			t.Errorf("tiers.txt has the paths of shard %s, which make test-full does not run", shard)
		}
		for _, path := range tiers.Paths[shard] {
			file := filepath.Join("../..", strings.TrimPrefix(path, "!"))
			if _, err := os.Stat(file); err != nil && !strings.Contains(path, "*") {
				t.Errorf("tiers.txt: paths of shard %s: %v", shard, err)
			}
		}
	}
	for _, s := range tier2 {
		if !slices.Contains(tiers.Shards, s.name) {
			t.Errorf("tiers.txt lacks the paths of shard %s", s.name)
		}
	}
	for _, s := range tier1 {
		used := slices.ContainsFunc(tiers.rules, func(r *rule) bool { return slices.Contains(r.steps, s.name) })
		if !used && len(s.commands) == 0 {
			t.Errorf("step %s of make test runs nothing", s.name)
		}
	}
}

// loaded returns this tree's tiers.txt and its tests.
func loaded(t *testing.T) (*Tiers, []Test) {
	t.Helper()
	tiers, err := Load("../tiers.txt")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	return tiers, tests
}

// tree writes files and returns their directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const head = "package p\n\nimport \"testing\"\n\n"

var source = map[string]string{
	"volume/a_test.go":     head + "func TestA(t *testing.T) {}\nfunc FuzzA(f *testing.F) {}\nfunc TestMain(m *testing.M) {}\nfunc Testify(s string) {}\n",
	"volume/disk_test.go":  "//go:build disk || vm\n\n" + head + "func TestDiskA(t *testing.T) {}\n",
	"volume/vm_test.go":    "//go:build vm\n\n" + head + "func TestVMA(t *testing.T) {}\n",
	"e2e/suite/a_test.go":  head + "func TestOne(t *testing.T) {}\nfunc TestTwo(t *testing.T) {}\n",
	"e2e/suite/testdata/x": "not go",
}

func TestAssign(t *testing.T) {
	const shards = "shard race volume\nshard disk volume\nshard suite-a e2e\n"
	good := "volume/... - * unit race\n... disk * disk disk\nvolume/... vm * - race\n"
	for _, row := range []struct{ name, text, want string }{
		{"all", good + "e2e/suite - * suite suite-a\n", ""},
		{"missing package", good, "e2e/suite TestOne: no line of tiers.txt says where it runs\ne2e/suite TestTwo: no line of tiers.txt says where it runs"},
		{"missing name", good + "e2e/suite - TestOne - suite-a\n", "e2e/suite TestTwo: no line of tiers.txt says where it runs"},
		{"missing tag", "volume/... - * unit race\nvolume/... vm TestVMA - race\ne2e/suite - * - suite-a\n", "volume TestDiskA: no line of tiers.txt says where it runs"},
		{"name that is not there", good + "e2e/suite - TestOne,TestTwo,TestThree - suite-a\n", "tiers.txt:7 names TestThree, which is not in e2e/suite"},
		{"line that fits none", good + "e2e/suite - * - suite-a\ne2e/nodes - * - suite-a\n", "tiers.txt:8 fits no test: correct or remove it"},
		{"no shard", good + "e2e/suite - * suite -\n", "tiers.txt:7 names no shard: a test that no shard runs proves nothing"},
		{"no such shard", good + "e2e/suite - * suite other\n", "tiers.txt:7: no line gives the paths of shard other"},
		{"no such path", good + "e2e/suite - * suite race\n", "tiers.txt:7: shard race runs tests of e2e/suite, which none of its paths has"},
		{"no such step", good + "e2e/suite - * other suite-a\n", "tiers.txt:7: make test has no step other"},
	} {
		t.Run(row.name, func(t *testing.T) {
			files := map[string]string{"tiers.txt": shards + row.text}
			for name, text := range source {
				files[name] = text
			}
			dir := tree(t, files)
			tiers, err := Load(filepath.Join(dir, "tiers.txt"))
			if err != nil {
				t.Fatal(err)
			}
			tests, err := Find(dir)
			if err != nil || len(tests) != 6 {
				t.Fatalf("found %v, %v, want six tests", tests, err)
			}
			if got := strings.Join(tiers.Assign(tests), "\n"); got != row.want {
				t.Errorf("%s\nwant\n%s", got, row.want)
			}
		})
	}
}

func TestBatches(t *testing.T) {
	dir := tree(t, source)
	text := "shard s volume e2e\n... disk * disk s\n... vm * disk s\nvolume - * race s\ne2e/suite - TestTwo - s\ne2e/suite - * suite s\n"
	if err := os.WriteFile(filepath.Join(dir, "tiers.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	tiers, err := Load(filepath.Join(dir, "tiers.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if problems := tiers.Assign(tests); len(problems) > 0 {
		t.Fatal(problems)
	}
	for step, want := range map[string]string{
		"race":  `[{. "" [./volume] ""}]`,
		"disk":  `[{. "disk" [./volume] "^(TestDiskA)$"}]`, // without those that need no tag, and those of the virtual machine
		"suite": `[{e2e "" [./suite] "^(TestOne)$"}]`,
	} {
		all := []string{}
		for _, b := range tiers.batches(func(r *rule) bool { return slices.Contains(r.steps, step) }) {
			all = append(all, fmt.Sprintf("{%s %q %v %q}", b.module, b.tags, b.packages, b.run))
		}
		if got := fmt.Sprint(all); got != want {
			t.Errorf("step %s: %s, want %s", step, got, want)
		}
	}
}

// A program with tests of the virtual machine ends at once on another one, because each of these
// packages imports volume/vmtest.
func TestGuestsStayInTheirMachine(t *testing.T) {
	tests, err := Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	guests := 0
	for _, test := range tests {
		if strings.HasPrefix(test.Package, "e2e/") || test.in(nil) || !test.in([]string{guest}) || test.in([]string{"disk"}) {
			continue
		}
		guests++
		text, err := os.ReadFile(filepath.Join("../..", test.Package, "guest_vm_test.go"))
		if err != nil || !strings.Contains(string(text), "//go:build "+guest+"\n") || !strings.Contains(string(text), `/volume/vmtest"`) {
			t.Errorf("%s of %s overwrites disks: its package has to import volume/vmtest in guest_vm_test.go (%v)", test.Name, test.Package, err)
		}
	}
	if guests == 0 {
		t.Error("there is no such test")
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := tree(t, map[string]string{"tiers.txt": "# head\nvolume - * unit\n"})
	_, err := Load(filepath.Join(dir, "tiers.txt"))
	if err == nil || !strings.Contains(err.Error(), `tiers.txt:2: "volume - * unit" has 4 fields`) {
		t.Error(err)
	}
}

func TestReadEvents(t *testing.T) {
	const p = `"Package":"kubevirt.io/hostpath-provisioner/volume"`
	in := strings.Join([]string{
		`{"Action":"output",` + p + `,"Test":"TestA","Output":"silent\n"}`,
		`{"Action":"pass",` + p + `,"Test":"TestA/row"}`,
		`{"Action":"pass",` + p + `,"Test":"TestA","Elapsed":12}`,
		`{"Action":"output",` + p + `,"Test":"TestB","Output":"words of TestB\n"}`,
		`{"Action":"fail",` + p + `,"Test":"TestB"}`,
		`{"Action":"skip",` + p + `,"Test":"TestC"}`,
		`{"Action":"run",` + p + `,"Test":"TestD"}`,
		`{"Action":"output",` + p + `,"Test":"TestD","Output":"panic: words of TestD\n"}`,
		`{"Action":"output",` + p + `,"Output":"FAIL\tvolume\t1s\n"}`,
		`{"Action":"fail",` + p + `}`,
		`{"ImportPath":"a/b","Action":"build-output","Output":"undefined: x\n"}`,
		`{"ImportPath":"a/b","Action":"build-fail"}`,
		`go: a line of the go command`,
	}, "\n")
	var out strings.Builder
	r, err := readEvents(strings.NewReader(in), &out)
	if err != nil {
		t.Fatal(err)
	}
	if r.passed != 2 || r.failed != 2 || r.skipped != 1 || !slices.Equal(r.names, []string{"volume TestA/row", "volume TestA"}) {
		t.Errorf("%+v", r)
	}
	for _, words := range []string{"TestA: pass after 12 s", "words of TestB", "panic: words of TestD", "FAIL\tvolume", "undefined: x", "a line of the go command"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("%q is not in the output %q", words, out.String())
		}
	}
	if strings.Contains(out.String(), "silent") {
		t.Errorf("the output has that of a test that passed: %q", out.String())
	}
}

// A shard is proven at a commit until one of its paths changes.
func TestProven(t *testing.T) {
	dir := tree(t, map[string]string{"volume/a.go": "package volume\n", "e2e/x.go": "package e2e\n", "e2e/tiers.txt": "shard race volume !volume/b !*_test.go\nshard suite-a e2e docs\n"})
	var out strings.Builder
	tiers, err := Load(filepath.Join(dir, "e2e", "tiers.txt"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Runner{Root: dir, Tiers: tiers, Out: &out}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, text)
		}
	}
	stale := func(want string) {
		t.Helper()
		out.Reset()
		if err := r.Stale(); err != nil || out.String() != want {
			t.Errorf("%q, %v, want %q", out.String(), err, want)
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "one")
	const never = "shard suite-a: never proven\n"
	stale("shard race: never proven\n" + never)
	if err := r.prove("race", outcome{results: results{names: []string{"volume TestA", "volume TestA/row"}}}); err != nil {
		t.Fatal(err)
	}
	stale(never)
	text, err := os.ReadFile(r.provenFile())
	if err != nil || !strings.Contains(string(text), "\nvolume TestA\n") {
		t.Errorf("%s %v", text, err)
	}
	change := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("e2e/x.go", "package e2e // changed\n")
	if err := r.prove("suite-a", outcome{}); err != nil || !strings.Contains(out.String(), "changes that are not committed") {
		t.Errorf("%q %v", out.String(), err)
	}
	stale(never)
	change("volume/a_test.go", "package volume\n")
	change("volume/b/b.go", "package b\n")
	change("volume/README.md", "words\n")
	git("add", "-A")
	git("commit", "-qm", "what is left out")
	stale(never)
	change("volume/a.go", "package volume // changed\n")
	for _, name := range []string{"c", "d", "e"} {
		change("volume/"+name+".go", "package volume\n")
	}
	git("add", "-A")
	git("commit", "-qm", "two")
	out.Reset()
	if err := r.Stale(); err != nil || !strings.Contains(out.String(), "shard race: changed since it was proven at ") || !strings.HasSuffix(out.String(), ": volume/a.go volume/c.go volume/d.go and 1 more\n"+never) {
		t.Errorf("%q %v", out.String(), err)
	}
	if err := errors.Join(r.prove("race", outcome{}), r.prove("suite-a", outcome{})); err != nil {
		t.Error(err)
	}
	stale("")
	change("docs/page.md", "words\n")
	git("add", "-A")
	out.Reset()
	if err := r.Stale(); err != nil || !strings.HasPrefix(out.String(), "shard suite-a: ") || !strings.HasSuffix(out.String(), ": docs/page.md\n") {
		t.Errorf("%q %v", out.String(), err)
	}
}

func TestTable(t *testing.T) {
	r := &Runner{Out: io.Discard, Root: t.TempDir()}
	if err := r.table("step", 0, nil); err == nil || !strings.Contains(err.Error(), "no such step") {
		t.Error(err)
	}
	var out strings.Builder
	r.Out = &out
	unit := results{passed: 2, names: []string{"volume TestSlow", "volume TestQuick"}, times: []took{{"TestQuick", 1}, {"TestSlow", 20}}}
	second := time.Second
	err := r.table("step", 9*second, []outcome{{step: "unit", wall: 8 * second, cpu: 12 * second, results: unit},
		{step: "disk", joined: "unit", wall: 7 * second, err: io.EOF}})
	if err == nil || err.Error() != "failed: disk" {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(r.Root, "_artifacts", "executed.txt")); string(text) != "volume TestQuick\nvolume TestSlow\n" {
		t.Errorf("%q %v", text, err)
	}
	for _, words := range []string{"unit              8       12        2\n", "disk              7                 0  beside unit  FAILED\n",
		"slowest tests, in seconds: TestSlow 20, TestQuick 1\n", "all               9       12        2\n", "2 passed, 0 failed, 0 skipped\n"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("%q is not in %q", words, out.String())
		}
	}
}
