// Command bench measures the agent on a real control plane, beside a program that does the same
// without a disk: the limit of a provisioner of this kind. Bursts alternate between the two, in
// several rounds, and so do single claims. The result is the ratio between the two in one round, so
// that the machine and its other load cancel out.
//
//	go run ./bench                        # every figure in its quick form
//	go run ./bench --full --json out.json
//	go run ./bench --figures burst,idle --rounds 5
//	go run ./bench scale --nodes 10,50    # many agents on one control plane
//
//	options.go     flags
//	lab.go         the control plane, and the measured programs
//	disk.go        the pools' disk
//	subject.go     starts and stops a program that serves claims
//	claims.go      creates and deletes claims; watch.go observes their times
//	serve.go       idle claims, bursts and deletes of all subjects in turn
//	stages.go      the stages of a claim's time
//	memory.go own.go wire.go big.go copy.go image.go scale.go    the other figures
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

// run measures the requested figures and prints them. A figure that cannot be measured is an error;
// one that misses its target is only marked in the table.
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

// measure measures the requested figures.
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
		{[]string{"own"}, l.own},
		{[]string{"image"}, l.image},
		{[]string{"copy"}, l.copies},
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
