package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const lintGo = "make --no-print-directory lint-go"

// race has tests build the programs that they start with the race detector.
const race = "HPP_E2E_RACE=1"

// step is a part of tier 1, or a shard of tier 2.
type step struct {
	name     string
	what     string   // for `prove help`
	packages string   // of Debian, in groups of packages.sh, installed where they are missing
	cluster  bool     // needs Kubernetes, which is built where it is missing
	commands []string // of the shell, from the root of the tree, run first
	memory   bool     // has the temporary files of its tests in memory: pools flush at every step
	ahead    string   // a command of the shell that fills caches for it, run beside the steps before it
	args     []string // of go test
	envs     []string // its tests run once for each of these environment variables, "" for none; nil is one run without
}

var (
	once      = []string{"-count=1"}
	oneByOne  = []string{"-count=1", "-p=1", "-timeout=30m"}
	short     = append(slices.Clone(oneByOne), "-short") // without what only waits or takes minutes to build
	withRace  = []string{"-race", "-count=1"}
	raceCache = []string{"-race"} // go test's cache holds results of tests that read nothing outside their module
)

// tier1 are the steps of `make test`, the cheap ones first.
var tier1 = []step{
	{name: "build", what: "the programs for this machine", commands: []string{"make --no-print-directory build"}},
	{name: "lint", what: "gofmt, shellcheck", packages: "shellcheck",
		commands: []string{"make --no-print-directory lint-format"}},
	{name: "unit", what: "values to values", packages: "@unit", args: []string{"-timeout=10m"}},
	{name: "race", what: "the storage library with the race detector", packages: "@unit", args: raceCache},
	{name: "disk", what: "real filesystems and mounts, csi-sanity", packages: "@disk", memory: true, args: once},
	{name: "suite", what: "agents and the operator on a real control plane", packages: "@disk", cluster: true,
		args: short},
	{name: "nodes", what: "real nodes with kubelets and pods", packages: "@cluster @disk", cluster: true, args: short},
	{name: "torture", what: "agents and the API server killed at random, for half a minute", packages: "@disk",
		cluster:  true,
		commands: []string{"make --no-print-directory torture MINUTES=0.5 TORTURE_FLAGS='--race=false --divide-times=5'"}},
	// The last one: what it has to know of all dependencies is found out beside the tests.
	{name: "vet", what: "go vet", ahead: lintGo, commands: []string{lintGo}},
}

// tier2 are the shards of `make test-full`.
var tier2 = []step{
	{name: "lint", what: "golangci-lint, shellcheck", commands: []string{"make --no-print-directory lint"}},
	{name: "race", what: "every unit test with the race detector", packages: "@unit", args: withRace},
	{name: "fuzz", what: "every fuzz target for a moment", packages: "@unit", commands: []string{"e2e/fuzz.sh 8s"}},
	{name: "disk", what: "real filesystems and mounts, csi-sanity, with the race detector", packages: "@disk",
		memory: true, args: withRace, envs: []string{race}},
	{name: "vm", what: "project quotas and power cuts in a small virtual machine", packages: "@disk @vm", args: oneByOne},
	{name: "arm64", what: "an emulated machine of arm64: every unit test of the programs, and what the shard vm runs",
		packages: "@disk @vm qemu-system-arm", args: oneByOne, envs: []string{"HPP_E2E_VM_ARCH=arm64"}},
	{name: "power", what: "power cuts on disks that keep only what was flushed", packages: "@disk", args: oneByOne},
	{name: "machine", what: "a booted distribution: systemd, SELinux, cgroup v2, a reboot and a power cut",
		packages: "@machine", cluster: true, args: oneByOne},
	{name: "suite-a", what: "the suite without the operator", packages: "@disk", cluster: true, args: oneByOne},
	{name: "suite-b", what: "the operator, as it is released and with the race detector", packages: "@disk", cluster: true,
		args: oneByOne, envs: []string{"", race}},
	{name: "nodes-a", what: "nodes: each form of the agent, its pods and volumes", packages: "@cluster @disk",
		cluster: true, args: oneByOne},
	{name: "nodes-b", what: "nodes: the operator, pools on claims, lost nodes, raw disks, other provisioners' volumes",
		packages: "@cluster @disk", cluster: true, args: oneByOne},
	{name: "pages", what: "the commands of the documentation, page by page", packages: "@cluster @disk", cluster: true,
		args: oneByOne},
	{name: "torture", what: "agents and the API server killed at random, for five minutes, with the race detector, and " +
		"PVs replaced meanwhile", packages: "@disk", cluster: true,
		commands: []string{"make --no-print-directory torture MINUTES=5 TORTURE_FLAGS=--migrate"}},
	{name: "release", what: "two releases from two clones are the same bytes; what the image's programs are",
		packages: "@unit", args: oneByOne},
	{name: "chart", what: "the Helm chart, rendered and on real nodes", packages: "@cluster @disk", cluster: true,
		args: oneByOne},
	{name: "demos", what: "the six demos, one after another on one cluster", packages: "@cluster @disk", cluster: true,
		commands: demos()},
}

// demos has the one of the operator first: it changes most of a cluster, and the others find what
// it leaves.
func demos() (all []string) {
	for _, target := range []string{"cluster-down", "demo-operator", "demo", "demo-single-node", "demo-disks",
		"demo-blank-disks", "demo-local-path", "cluster-down"} {
		all = append(all, "make --no-print-directory "+target)
	}
	return all
}

func stepNamed(steps []step, name string) *step {
	if i := slices.IndexFunc(steps, func(s step) bool { return s.name == name }); i >= 0 {
		return &steps[i]
	}
	return nil
}

// outcome is how a step went.
type outcome struct {
	step      string
	wall, cpu time.Duration
	results   results
	err       error
}

// Runner runs steps in a tree.
type Runner struct {
	Root  string
	Tiers *Tiers // after Assign
	Out   io.Writer

	beside *ahead // in tier 1
}

// run runs one step with the tests that want selects.
func (r *Runner) run(ctx context.Context, s step, want func(*rule) bool) outcome {
	fmt.Fprintf(r.Out, "\n==> %s: %s\n", s.name, s.what)
	o, begin, cpu := outcome{step: s.name}, time.Now(), busy()
	o.results, o.err = r.try(ctx, s, want)
	o.wall, o.cpu = time.Since(begin), busy()-cpu
	verdict := "ok"
	if o.err != nil {
		verdict = "FAILED: " + o.err.Error()
	}
	fmt.Fprintf(r.Out, "==> %s: %s after %.0f s\n", s.name, verdict, o.wall.Seconds())
	return o
}

func (r *Runner) try(ctx context.Context, s step, want func(*rule) bool) (all results, err error) {
	if s.ahead != "" {
		r.beside.wait(ctx, r.Out)
	}
	commands := s.commands
	if s.cluster {
		commands = slices.Concat([]string{buildCluster}, commands)
	}
	if s.packages != "" {
		commands = slices.Concat([]string{"e2e/packages.sh " + s.packages}, commands)
	}
	for _, command := range commands {
		cmd := exec.CommandContext(ctx, "sh", "-euc", command)
		cmd.Dir, cmd.Stdout, cmd.Stderr = r.Root, r.Out, r.Out
		if err := cmd.Run(); err != nil {
			return all, fmt.Errorf("%s: %w", command, err)
		}
	}
	envs := s.envs
	if envs == nil {
		envs = []string{""}
	}
	for _, env := range envs {
		for _, b := range r.Tiers.batches(want) {
			got, failed := r.goTest(ctx, b, s, env)
			all.add(got)
			err = errors.Join(err, failed)
		}
	}
	return all, err
}

// args are the arguments of go test after those of the step.
func (b batch) args() (all []string) {
	if b.module == "e2e" { // go test's cache sees no file outside the module, and these tests read files of the main one
		all = append(all, "-count=1")
	}
	if b.tags != "" {
		all = append(all, "-tags="+b.tags)
	}
	if b.run != "" {
		all = append(all, "-run="+b.run)
	}
	return append(all, b.packages...)
}

// busy returns the time for which the processors of this machine have worked, for whichever
// program: a step starts programs that outlive their parents. It is 0 where /proc/stat does not
// say; see proc_stat(5), in ticks of 10 ms.
func busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, soft int64
	first, _, _ := strings.Cut(string(text), "\n")
	if _, err := fmt.Sscanf(first, "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq,
		&soft); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+soft) * 10 * time.Millisecond
}

// Tier1 runs the steps of tier 1, all or those named, and prints a table. A step that fails does
// not keep the others from running, but for packages, build and lint. The error says which failed.
func (r *Runner) Tier1(ctx context.Context, only []string) error {
	steps := slices.DeleteFunc(slices.Clone(tier1), func(s step) bool {
		return len(only) > 0 && !slices.Contains(only, s.name)
	})
	if len(steps) == 0 {
		return r.table("step", nil)
	}
	steps = slices.Insert(steps, 0, packages(steps))
	r.beside = goAhead(ctx, r.Root, aheadOf(steps))
	defer r.beside.end()
	var all []outcome
	for _, s := range steps {
		o := r.run(ctx, s, func(line *rule) bool { return slices.Contains(line.steps, s.name) })
		all = append(all, o)
		if o.err != nil && slices.Contains([]string{"packages", "build", "lint"}, s.name) {
			break
		}
	}
	return r.table("step", all)
}

// Tier2 runs shards, all or those named, writes to proven.txt which passed, and prints a table.
func (r *Runner) Tier2(ctx context.Context, only []string) error {
	var all []outcome
	for _, s := range tier2 {
		if len(only) > 0 && !slices.Contains(only, s.name) {
			continue
		}
		o := r.run(ctx, s, func(line *rule) bool { return slices.Contains(line.shards, s.name) })
		all = append(all, o)
		if o.err == nil {
			o.err = r.prove(s.name, o)
		}
	}
	return r.table("shard", all)
}

// table prints a line for each outcome and for their sum, and returns an error that names those
// that failed.
func (r *Runner) table(title string, all []outcome) error {
	if len(all) == 0 {
		return errors.New("no such " + title + "; `make test-help` lists them")
	}
	var sum outcome
	var failed []string
	fmt.Fprintf(r.Out, "\n%-10s %8s %8s %8s\n", title, "seconds", "CPU s", "tests")
	for _, o := range all {
		mark := ""
		if o.err != nil {
			failed, mark = append(failed, o.step), "  FAILED"
		}
		fmt.Fprintf(r.Out, "%-10s %8.0f %8.0f %8d%s\n", o.step, o.wall.Seconds(), o.cpu.Seconds(),
			o.results.passed+o.results.failed, mark)
		sum.wall, sum.cpu = sum.wall+o.wall, sum.cpu+o.cpu
		sum.results.add(o.results)
	}
	n := sum.results
	r.slowest(n.times)
	fmt.Fprintf(r.Out, "%-10s %8.0f %8.0f %8d\n", "all", sum.wall.Seconds(), sum.cpu.Seconds(), n.passed+n.failed)
	fmt.Fprintf(r.Out, "%d passed, %d failed, %d skipped\n", n.passed, n.failed, n.skipped)
	err := r.executed(n.names)
	if len(failed) > 0 {
		err = errors.Join(fmt.Errorf("failed: %s", strings.Join(failed, ", ")), err)
	}
	return err
}

// executed writes the names of the tests and rows that passed to _artifacts/executed.txt.
func (r *Runner) executed(names []string) error {
	dir := filepath.Join(r.Root, "_artifacts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	slices.Sort(names)
	return os.WriteFile(filepath.Join(dir, "executed.txt"), []byte(strings.Join(slices.Compact(names), "\n")+"\n"), 0o644)
}

// slowest prints the ten slowest tests. Those of one package run beside each other, so their times
// do not add up.
func (r *Runner) slowest(all []took) {
	slices.SortFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	var words []string
	for _, one := range all[:min(10, len(all))] {
		words = append(words, fmt.Sprintf("%s %.0f", one.name, one.seconds))
	}
	if len(words) > 0 {
		fmt.Fprintf(r.Out, "slowest tests, in seconds: %s\n", strings.Join(words, ", "))
	}
}
