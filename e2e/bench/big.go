package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// filesInDirectory is the number of files in each directory of the big volume.
	filesInDirectory = 1000
	// meanwhile is the time for which other claims are measured, before something and during it.
	meanwhile = 30 * time.Second
	// emptyVolumes are deleted one after another, for comparison.
	emptyVolumes = 7
)

// big deletes a volume with many files. It measures when the PV is gone, beside empty volumes, and
// the latency of other claims.
func (l *lab) big(ctx context.Context, r *report) error {
	node, err := l.node(ctx, "big")
	if err != nil {
		return err
	}
	agent, err := l.start(ctx, agentOf(shapeHostPath), node, "")
	if err != nil {
		return err
	}
	defer agent.stop()
	quiet, err := l.beside(ctx, agent)
	if err != nil {
		return err
	}
	var empty sample
	for range emptyVolumes {
		one, err := l.create(ctx, agent, 1)
		if err == nil {
			err = l.remove(ctx, one)
		}
		if err != nil {
			return err
		}
		empty = append(empty, one.each((*life).went)...)
	}
	full, err := l.create(ctx, agent, 1)
	if err != nil {
		return err
	}
	if err := l.fill(filepath.Join(agent.pool, shapeHostPath, "pvc-"+string(full[0].uid))); err != nil {
		return err
	}
	if err := l.remove(ctx, full); err != nil {
		return err
	}
	busy, err := l.beside(ctx, agent)
	if err != nil {
		return err
	}
	gone := full[0].went().Seconds() * 1000
	l.say("%d files: PV gone after %.1f ms, of an empty volume %.1f ms", l.files, gone, empty.median())
	r.compare("big.delete", "ms (limit: an empty volume)", empty.median(), gone, 1.5)
	r.others("big", quiet, busy)
	return nil
}

// beside creates claims, one after another, for half a minute: while something else goes on, or before
// that, for comparison. A p99 needs some hundred of both.
func (l *lab) beside(ctx context.Context, agent *running) (busy lives, err error) {
	for end := time.Now().Add(meanwhile); time.Now().Before(end); {
		some, err := l.oneByOne(ctx, 10, agent)
		if err != nil {
			return nil, err
		}
		busy = append(busy, some[0]...)
	}
	return busy, nil
}

// others adds the figures of what other claims notice.
func (r *report) others(name string, quiet, busy lives) {
	before, during := quiet.each((*life).took), busy.each((*life).took)
	r.compare(name+".others-p50", "ms (limit: before)", before.at(50), during.at(50), 1.5)
	r.compare(name+".others-p99", "ms (limit: before)", before.at(99), during.at(99), 1.5)
}

// compare adds a figure that compares the agent with itself.
func (r *report) compare(name, unit string, limit, value, most float64) {
	r.add(figure{
		name: name, unit: unit, limit: limit, agent: value, ratios: sample{value / limit},
		target: "<= " + number(most), met: value <= most*limit,
	})
}

// went returns the time from the deletion of the claim to that of the PV.
func (f *life) went() time.Duration { return f.gone.Sub(f.asked) }

// fill writes the files of the big volume, and waits until the disk has them: unwritten data would
// delay every flush.
func (l *lab) fill(dir string) error {
	l.say("making %d files", l.files)
	err := together((l.files+filesInDirectory-1)/filesInDirectory, func(i int) error {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", i))
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		for j := range min(filesInDirectory, l.files-i*filesInDirectory) {
			f, err := os.Create(filepath.Join(sub, fmt.Sprintf("f%d", j)))
			if err != nil {
				return err
			}
			f.Close()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make files: %w", err)
	}
	return l.disk.rest()
}
