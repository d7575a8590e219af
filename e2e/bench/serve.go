package main

import (
	"context"
	"fmt"
	"slices"
)

// warmUp is how many claims a program serves before it is measured.
const warmUp = 5

// served is what one subject did in one round.
type served struct {
	idle, burst            lives
	idleStages, bursStages []stages
}

// contest is all rounds of the subjects of one shape.
type contest struct {
	shape  string
	names  []string // in the order of the table: limit, agent, peers
	rounds map[string][]served
}

// serve takes the figures of claims that are served: bursts, deletes, idle claims, the provisioner's own share.
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
			for _, s := range turn(subjects, round) {
				one, err := l.round(ctx, s, node)
				if err != nil {
					return err
				}
				c.rounds[s.name] = append(c.rounds[s.name], one)
				l.say("%s %s, round %d of %d: %s", shape, s.name, round+1, l.rounds, one.words())
			}
		}
		r.serve(&c)
	}
	return nil
}

// turn is the list with another one first in every round: who comes first finds another machine than who comes last.
func turn(all []*subject, round int) []*subject {
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}

// round starts the subject, measures it, and ends it.
func (l *lab) round(ctx context.Context, s *subject, node string) (served, error) {
	var one served
	r, err := l.start(ctx, s, node, "")
	if err != nil {
		return one, err
	}
	defer r.stop()
	warm, err := l.create(ctx, r, warmUp)
	if err == nil {
		err = l.remove(ctx, warm)
	}
	if err == nil && l.wants("idle", "share") {
		one.idle, err = l.oneByOne(ctx, r, l.idle)
	}
	if err == nil && l.wants("burst", "share", "delete") {
		if one.burst, err = l.create(ctx, r, l.burst); err == nil {
			err = l.remove(ctx, one.burst)
		}
	}
	if err != nil {
		return one, fmt.Errorf("%w; see %s", err, r.log)
	}
	log, err := readStamps(r.log)
	one.idleStages, one.bursStages = log.stages(one.idle), log.stages(one.burst)
	return one, err
}

func (s served) words() string {
	words := ""
	if len(s.idle) > 0 {
		words += fmt.Sprintf("idle p50 %.1f ms, own share %.1f ms; ", s.idle.each((*life).took).at(50), s.idle.each((*life).share).at(50))
	}
	if len(s.burst) > 0 {
		words += fmt.Sprintf("burst of %d: %.1f claims/s, %.1f deletes/s", len(s.burst), s.burst.rate(), s.burst.deletes())
	}
	return words
}

// each is one number of every round of the subject.
func (c *contest) each(name string, of func(served) float64) sample {
	var s sample
	for _, one := range c.rounds[name] {
		s = append(s, of(one))
	}
	return s
}

// pooled is one time of all claims of all rounds, in milliseconds.
func (c *contest) pooled(name string, of func(served) sample) sample {
	var s sample
	for _, one := range c.rounds[name] {
		s = append(s, of(one)...)
	}
	return s
}

// sizes measures the latency of claims against how many are made at once.
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
