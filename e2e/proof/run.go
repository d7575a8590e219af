package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// outcome is how a step went.
type outcome struct {
	step      string
	joined    string // the step beside which it ran, if any; the cpu of that one is of both
	wall, cpu time.Duration
	results   results
	err       error
}

// Runner runs steps in a tree.
type Runner struct {
	Root  string
	Tiers *Tiers // after Assign
	Out   io.Writer

	ahead *ahead // in tier 1
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
		r.ahead.wait(ctx, r.Out)
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

// together runs steps of tier 1 that begin at the same time. The first one prints as it goes on; what
// the others print follows when all have ended.
func (r *Runner) together(ctx context.Context, steps []step) []outcome {
	all, printed := make([]outcome, len(steps)), make([]bytes.Buffer, len(steps))
	var running sync.WaitGroup
	cpu := busy()
	for i, s := range steps {
		one := *r
		if i > 0 {
			one.Out = &printed[i]
		}
		running.Go(func() {
			all[i] = one.run(ctx, s, func(line *rule) bool { return slices.Contains(line.steps, s.name) })
		})
	}
	running.Wait()
	for i := range all[1:] {
		all[i+1].cpu, all[i+1].joined = 0, steps[0].name
		_, _ = printed[i+1].WriteTo(r.Out)
	}
	all[0].cpu = busy() - cpu
	return all
}

// Tier1 runs the steps of tier 1, all or those named, and prints a table. A step that fails does
// not keep the others from running, but for packages, build and lint. The error says which failed.
func (r *Runner) Tier1(ctx context.Context, only []string) error {
	steps := slices.DeleteFunc(slices.Clone(tier1), func(s step) bool {
		return len(only) > 0 && !slices.Contains(only, s.name)
	})
	if len(steps) == 0 {
		return r.table("step", 0, nil)
	}
	steps = slices.Insert(steps, 0, packages(steps))
	r.ahead = goAhead(ctx, r.Root, aheadOf(steps))
	defer r.ahead.end()
	var all []outcome
	for begin := time.Now(); ; {
		n := 1
		for n < len(steps) && steps[n].joins == steps[0].name {
			n++
		}
		all, steps = append(all, r.together(ctx, steps[:n])...), steps[n:]
		last := all[len(all)-1]
		if len(steps) == 0 || last.err != nil && slices.Contains([]string{"packages", "build", "lint"}, last.step) {
			return r.table("step", time.Since(begin), all)
		}
	}
}

// Tier2 runs shards, all or those named, writes to proven.txt which passed, and prints a table.
func (r *Runner) Tier2(ctx context.Context, only []string) error {
	var all []outcome
	begin := time.Now()
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
	return r.table("shard", time.Since(begin), all)
}
