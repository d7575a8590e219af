// Prove runs the tests of the tree, or says which run where.
//
//	prove tier1 [STEP...]     what make test runs
//	prove tier2 [SHARD...]    what make test-full runs; writes e2e/proven.txt
//	prove stale               the shards of tier 2 whose files changed since they last passed
//	prove list                every test with its steps and shards
//	prove help                the steps and shards
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"kubevirt.io/hostpath-provisioner/e2e/proof"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	tiers, err := proof.Load(filepath.Join(root, "e2e", "tiers.txt"))
	if err != nil {
		return fmt.Errorf("run it in the directory e2e: %w", err)
	}
	tests, err := proof.Find(root)
	if err != nil {
		return err
	}
	if problems := tiers.Assign(tests); len(problems) > 0 {
		return errors.New(problems[0])
	}
	r := &proof.Runner{Root: root, Tiers: tiers, Out: os.Stdout}
	switch args[0] {
	case "tier1":
		return r.Tier1(ctx, args[1:])
	case "tier2":
		return r.Tier2(ctx, args[1:])
	case "stale":
		return r.Stale()
	case "list":
		return r.List()
	case "help":
		return r.Help()
	}
	return fmt.Errorf("no command %q; prove help lists them", args[0])
}
