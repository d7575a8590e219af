package proof

import "slices"

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
	joins    string   // the step above it together with which it begins: neither keeps the processors busy
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
	{name: "disk", what: "real filesystems and mounts, csi-sanity", packages: "@disk", memory: true, args: once},
	{name: "race", what: "the storage library with the race detector", packages: "@unit", args: raceCache,
		joins: "disk"},
	{name: "suite", what: "agents and the operator on a real control plane", packages: "@disk prometheus", cluster: true,
		args: short},
	{name: "nodes", what: "real nodes with kubelets and pods", packages: "@cluster @disk", cluster: true, args: short},
	{name: "torture", what: "agents and the API server killed at random, for half a minute", packages: "@disk",
		cluster: true, joins: "nodes",
		commands: []string{"make --no-print-directory torture MINUTES=0.5 TORTURE_FLAGS='--race=false --divide-times=5'"}},
	// The last one: what it has to know of all dependencies is found out beside the tests.
	{name: "vet", what: "go vet", ahead: lintGo, commands: []string{lintGo}},
}

// tier2 are the shards of `make test-full`.
var tier2 = []step{
	{name: "lint", what: "golangci-lint, shellcheck, actionlint", commands: []string{"make --no-print-directory lint"}},
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
	{name: "suite-a", what: "the suite without the operator", packages: "@disk prometheus", cluster: true, args: oneByOne},
	{name: "suite-b", what: "the operator, as it is released and with the race detector", packages: "@disk prometheus",
		cluster: true, args: oneByOne, envs: []string{"", race}},
	{name: "nodes-a", what: "nodes: each form of the agent, its pods and volumes", packages: "@cluster @disk",
		cluster: true, args: oneByOne},
	{name: "nodes-b", what: "nodes: the operator, pools on claims, lost nodes, raw disks, other provisioners' volumes",
		packages: "@cluster @disk", cluster: true, args: oneByOne},
	{name: "pages", what: "the commands of the documentation, page by page", packages: "@cluster @disk", cluster: true,
		args: oneByOne},
	{name: "conformance", what: "the storage tests of Kubernetes against the driver on real nodes, in its two forms",
		packages: "@cluster @disk", cluster: true, args: oneByOne},
	{name: "upgrade", what: "a kubelet that is upgraded under a pod that writes", packages: "@cluster @disk", cluster: true,
		args: oneByOne},
	{name: "torture", what: "agents and the API server killed at random, for five minutes, with the race detector, and " +
		"PVs replaced meanwhile", packages: "@disk", cluster: true,
		commands: []string{"make --no-print-directory torture MINUTES=5 TORTURE_FLAGS=--migrate"}},
	{name: "simulate", what: "simulated clusters by random seeds, for fifteen minutes", packages: "@unit",
		commands: []string{"make --no-print-directory simulate MINUTES=15"}},
	{name: "release", what: "two releases from two clones are the same bytes; what the image's programs are",
		packages: "@unit jq", args: oneByOne},
	{name: "chart", what: "the Helm chart, rendered and on real nodes", packages: "@cluster @disk", cluster: true,
		args: oneByOne},
	{name: "demos", what: "the seven demos, one after another on one cluster", packages: "@cluster @disk", cluster: true,
		commands: demos()},
}

// demos has the one of the operator first: it changes most of a cluster, and the others find what
// it leaves.
func demos() (all []string) {
	for _, target := range []string{"cluster-down", "demo-operator", "demo", "demo-single-node", "demo-disks",
		"demo-blank-disks", "demo-local-path", "demo-recover", "cluster-down"} {
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
