// Command bench measures the agent on a real control plane, beside a program that does the same and touches no disk: the
// limit of what a provisioner of this kind can do there. Bursts are theirs in turn, in several rounds, and single claims by
// turns; what counts is the ratio between the two of one round, so that the machine and what else runs on it cancel out.
//
//	go run ./bench                        # every figure in its quick form
//	go run ./bench --full --json out.json
//	go run ./bench --figures burst,idle --rounds 5
//	go run ./bench scale --nodes 10,50    # many agents on one control plane
//
//	options.go     what can be asked for
//	lab.go         the control plane, and the programs that are measured
//	disk.go        where the pools are
//	subject.go     one program that serves claims: started, ready, stopped
//	claims.go      claims made and deleted; watch.go, when what became of them
//	serve.go       idle claims, bursts and deletes of all subjects in turn
//	stages.go      where the time goes
//	memory.go wire.go big.go image.go scale.go    the other figures
//	report.go plot.go stats.go                    what is printed
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what was asked for and prints it. A figure that cannot be measured is an error, one that misses its
// target is not: the table says so.
func run(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(err != nil)) }()
	r := newReport(l)
	if o.scale {
		if err := l.scaleUp(ctx, r); err != nil {
			return err
		}
	} else if err := l.measure(ctx, r); err != nil {
		return err
	}
	return r.print(os.Stdout)
}

// measure takes the figures that were asked for.
func (l *lab) measure(ctx context.Context, r *report) error {
	for _, f := range []struct {
		names []string
		take  func(context.Context, *report) error
	}{
		{[]string{"burst", "idle", "share", "delete"}, l.serve},
		{[]string{"sizes"}, l.sizes},
		{[]string{"wire"}, l.wire},
		{[]string{"big"}, l.big},
		{[]string{"memory"}, l.memory},
		{[]string{"image"}, l.image},
	} {
		if !l.wants(f.names...) {
			continue
		}
		if err := f.take(ctx, r); err != nil {
			return fmt.Errorf("figure %s: %w", f.names[0], err)
		}
	}
	return nil
}
