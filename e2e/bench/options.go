package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// options are the flags.
type options struct {
	scale      bool // instead of the figures
	full       bool
	figures    []string
	shapes     []string
	rounds     int
	burst      int   // claims at once
	idle       int   // claims one after the other
	foreign    int   // volumes of other nodes
	owned      int   // volumes of the agent's node
	churned    int   // claims that are created and deleted before
	files      int   // in the big volume
	qps        int   // of the controller-manager's own client
	nodes      []int // in turn, for scale
	dir        string
	pool       string
	filesystem string // of the pools' disk
	out        string
	json       string
	peers      []peer
	applied    []string // manifests
}

// peer is another provisioner, run as a process for comparison.
type peer struct{ name, command, class string }

var allFigures = []string{"burst", "idle", "share", "delete", "sizes", "wire", "big", "memory", "own", "image", "copy"}

func parseOptions(args []string) (options, error) {
	o := options{}
	if len(args) > 0 && args[0] == "scale" {
		o.scale, args = true, args[1:]
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	figures := f.String("figures", "", "which to take, of "+strings.Join(allFigures, ",")+"; all unless given")
	shapes := f.String("shapes", "hostpath,csi", "PVs of which shape the agent makes")
	nodes := f.String("nodes", "", "scale: numbers of nodes, one after the other (10,50; with --full 10,50,100)")
	o.register(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q; the only word is scale, and it comes first", f.Arg(0))
	}
	var err error
	if o.figures, err = list(*figures, allFigures); err != nil {
		return o, fmt.Errorf("--figures: %w", err)
	}
	if o.shapes, err = list(*shapes, []string{shapeHostPath, shapeCSI}); err != nil {
		return o, fmt.Errorf("--shapes: %w", err)
	}
	for _, p := range o.peers {
		if p.class == "" {
			return o, fmt.Errorf("--peer %s needs --class behind it, whose claims it serves", p.name)
		}
	}
	return o, o.fill(*nodes)
}

func (o *options) register(f *flag.FlagSet) {
	f.BoolVar(&o.full, "full", false, "more rounds, more volumes, more files: half an hour instead of a few minutes")
	f.IntVar(&o.rounds, "rounds", 0, "rounds (3; with --full 7)")
	f.IntVar(&o.burst, "burst", 0, "claims of a burst (200; with --full 500)")
	f.IntVar(&o.idle, "idle", 0, "claims of a round, one after another (20; with --full 50)")
	f.IntVar(&o.foreign, "foreign", 10000, "volumes of other nodes")
	f.IntVar(&o.owned, "own", 0, "volumes of the agent's node (1000; with --full 10000)")
	f.IntVar(&o.churned, "churn", 0, "claims that are created and deleted before (1000; with --full 10000); growth is compared from 10000")
	f.IntVar(&o.files, "files", 0, "files of the big volume (100000; with --full 1000000)")
	f.IntVar(&o.qps, "controller-manager-qps", 1000, "rate limit of the controller-manager's client, in requests a "+
		"second; its burst is half as many more. The default of Kubernetes is 20")
	f.StringVar(&o.dir, "dir", "", "empty or absent directory for the control plane, on a disk; by default a temporary one")
	f.StringVar(&o.pool, "pool", "", "empty or absent directory for the agent's pools, on the filesystem to be "+
		"measured; by default on the --disk")
	f.StringVar(&o.filesystem, "disk", "xfs", "filesystem that is created for the pools in a file in --dir: xfs, ext4 "+
		"or btrfs; none is a plain directory there")
	f.StringVar(&o.out, "out", "../_artifacts", "directory for plots")
	f.StringVar(&o.json, "json", "", "file for one JSON object, from the names of figures to ratios")
	f.Func("manifest", "file or URL that kubectl applies before the measurements, such as a peer's class and "+
		"permissions; may be given again", func(s string) error {
		o.applied = append(o.applied, s)
		return nil
	})
	f.Func("peer", "another provisioner as 'name=command', run with KUBECONFIG, NODE_NAME and POOL; may be given again",
		func(s string) error {
			name, command, ok := strings.Cut(s, "=")
			if !ok || name == "" || command == "" {
				return errors.New("want name=command")
			}
			o.peers = append(o.peers, peer{name: name, command: command})
			return nil
		})
	f.Func("class", "class that the --peer before it serves", func(s string) error {
		if len(o.peers) == 0 {
			return errors.New("name the --peer first")
		}
		o.peers[len(o.peers)-1].class = s
		return nil
	})
}

// fill sets the defaults.
func (o *options) fill(nodes string) error {
	number := func(n *int, quick, full int) {
		if *n == 0 {
			*n = quick
			if o.full {
				*n = full
			}
		}
	}
	number(&o.rounds, 3, 7)
	number(&o.burst, 200, 500)
	number(&o.idle, 20, 50)
	number(&o.files, 100_000, 1_000_000)
	number(&o.owned, 1000, 10_000)
	number(&o.churned, 1000, flatAfter)
	if nodes == "" {
		nodes = "10,50"
		if o.full {
			nodes = "10,50,100"
		}
	}
	for word := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return fmt.Errorf("--nodes %q: want numbers such as 10,50", nodes)
		}
		o.nodes = append(o.nodes, n)
	}
	if !slices.Contains([]string{"xfs", "ext4", "btrfs", noDisk}, o.filesystem) {
		return fmt.Errorf("--disk %q is none of xfs, ext4, btrfs, none", o.filesystem)
	}
	if o.rounds < 1 || o.burst < 1 || o.idle < 1 || o.foreign < 10 || o.owned < 2 || o.churned < 4 || o.files < 1000 || o.qps < 1 {
		return errors.New("--rounds, --burst and --idle must be above zero, --foreign at least 10, --own at least 2, --churn at least 4, " +
			"--files at least 1000, --controller-manager-qps above zero")
	}
	return nil
}

// wants reports whether one of the figures was requested.
func (o *options) wants(figures ...string) bool {
	return slices.ContainsFunc(figures, func(f string) bool { return slices.Contains(o.figures, f) })
}

// list splits words at commas; an empty text means all known words.
func list(words string, known []string) ([]string, error) {
	if words == "" {
		return known, nil
	}
	all := strings.Split(words, ",")
	for _, w := range all {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("%q is none of %s", w, strings.Join(known, ","))
		}
	}
	return all, nil
}
