package main

import (
	"context"
	"fmt"
	"slices"
)

// warmUp is the number of claims that a program serves before it is measured.
const warmUp = 5

// served has the results of one subject in one round.
type served struct {
	idle, burst measured
}

// measured has the times of claims, and their stages.
type measured struct {
	lives
	stages []stages
}

// contest has all rounds of the subjects of one backend.
type contest struct {
	shape  string
	names  []string // in the order of the table: limit, agent, peers
	rounds map[string][]served
}

// serve measures claims that are served: bursts, deletes, idle claims, the provisioner's own share.
func (l *lab) serve(ctx context.Context, r *report) error {
	for i, shape := range l.shapes {
		c := contest{shape: shape, rounds: map[string][]served{}}
		subjects := []*subject{limitOf(shape), agentOf(shape)}
		if i == len(l.shapes)-1 {
			for _, p := range l.peers {
				subjects = append(subjects, peerOf(p))
			}
		}
		for _, s := range subjects {
			c.names = append(c.names, s.name)
		}
		node, err := l.node(ctx, "serve-"+shape)
		if err != nil {
			return err
		}
		for round := range l.rounds {
			if err := l.round(ctx, &c, turn(subjects, round), node); err != nil {
				return err
			}
		}
		r.serve(&c)
	}
	return nil
}

// turn rotates the list by the round, because the order of the subjects affects the result.
func turn[T any](all []T, round int) []T {
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}

// round measures all subjects once.
func (l *lab) round(ctx context.Context, c *contest, subjects []*subject, node string) error {
	title := fmt.Sprintf("%s, round %d of %d", c.shape, len(c.rounds[subjects[0].name])+1, l.rounds)
	one := make([]served, len(subjects))
	if l.wants("idle", "share") {
		idle, err := l.byTurns(ctx, subjects, node)
		if err != nil {
			return err
		}
		for i, m := range idle {
			one[i].idle = m
			l.say("%s: %s idle: p50 %.1f ms, own share %.1f ms", title, subjects[i].name, m.each((*life).took).at(50),
				m.each((*life).share).at(50))
		}
	}
	if l.wants("burst", "delete") {
		for i, s := range subjects {
			m, err := l.atOnce(ctx, s, node)
			if err != nil {
				return err
			}
			one[i].burst = m
			l.say("%s: %s burst of %d: %.1f claims/s, %.1f deletes/s", title, s.name, l.burst, m.rate(), m.deletes())
		}
	}
	for i, s := range subjects {
		c.rounds[s.name] = append(c.rounds[s.name], one[i])
	}
	return nil
}

// byTurns measures single claims. All subjects run, and each gets one claim in its turn, so that a
// slow phase of the machine affects all of them. In a burst they would disturb each other.
func (l *lab) byTurns(ctx context.Context, subjects []*subject, node string) ([]measured, error) {
	var all []*running
	defer func() {
		for _, r := range all {
			r.stop()
		}
	}()
	for _, s := range subjects {
		r, err := l.startWarm(ctx, s, node)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	found, err := l.oneByOne(ctx, l.idle, all...)
	if err != nil {
		return nil, err
	}
	out := make([]measured, len(all))
	for i, r := range all {
		if out[i], err = measure(found[i], r.log); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// atOnce measures a burst of claims and their deletion, of a subject that runs alone.
func (l *lab) atOnce(ctx context.Context, s *subject, node string) (measured, error) {
	r, err := l.startWarm(ctx, s, node)
	if err != nil {
		return measured{}, err
	}
	defer r.stop()
	all, err := l.create(ctx, r, l.burst)
	if err == nil {
		err = l.remove(ctx, all)
	}
	if err != nil {
		return measured{}, r.blame(err)
	}
	return measure(all, r.log)
}

// startWarm starts a subject and lets it serve warmUp claims.
func (l *lab) startWarm(ctx context.Context, s *subject, node string) (*running, error) {
	r, err := l.start(ctx, s, node, "")
	if err != nil {
		return nil, err
	}
	warm, err := l.create(ctx, r, warmUp)
	if err == nil {
		err = l.remove(ctx, warm)
	}
	if err != nil {
		r.stop()
		return nil, r.blame(err)
	}
	return r, nil
}

// measure reads the stages of the claims from a log.
func measure(all lives, log string) (measured, error) {
	found, err := readStamps(log)
	return measured{all, found.stages(all)}, err
}

// each returns one number of every round of the subject.
func (c *contest) each(name string, of func(served) float64) sample {
	var s sample
	for _, one := range c.rounds[name] {
		s = append(s, of(one))
	}
	return s
}

// pooled returns one time of all claims of all rounds, in milliseconds.
func (c *contest) pooled(name string, of func(served) sample) sample {
	var s sample
	for _, one := range c.rounds[name] {
		s = append(s, of(one)...)
	}
	return s
}

// sizes measures the latency of claims by the size of the burst.
func (l *lab) sizes(ctx context.Context, r *report) error {
	sizes := []int{1, 5, 20, 50, 100, 200}
	if l.full {
		sizes = append(sizes, 500)
	}
	for _, shape := range l.shapes {
		node, err := l.node(ctx, "sizes-"+shape)
		if err != nil {
			return err
		}
		for _, s := range []*subject{limitOf(shape), agentOf(shape)} {
			at, err := l.start(ctx, s, node, "")
			if err != nil {
				return err
			}
			for _, n := range sizes {
				all, err := l.create(ctx, at, n)
				if err == nil {
					err = l.remove(ctx, all)
				}
				if err != nil {
					at.stop()
					return err
				}
				took := all.each((*life).took)
				r.latency = append(r.latency, point{line: shape + " " + s.name, x: float64(n), y: took.at(50), high: took.at(99)})
				l.say("%s %s, %d at once: p50 %.0f ms, p99 %.0f ms", shape, s.name, n, took.at(50), took.at(99))
			}
			at.stop()
		}
	}
	return nil
}
