package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// ownBatch is how many claims are created or deleted at once.
	ownBatch = 500
	// ownSize and ownBytes are the size of each. That of other figures, 1Mi, is too much for the
	// pools' disk with 10,000 of them.
	ownSize, ownBytes = "256Ki", 256 << 10
	// flatAfter is how many claims have to be created and deleted before the agent's growth is compared with
	// its bound. It remembers the last 4,096 (claims.RememberMost), and must not grow after that.
	flatAfter = 10_000
)

// profiled is an agent of both backends whose memory saveProfile can read.
func profiled() *subject {
	s := agentOf(shapeBoth)
	command := s.command
	s.command = func(l *lab, at place) *exec.Cmd {
		cmd := command(l, at)
		cmd.Args = append(cmd.Args, "--pprof-address="+profileAddress(at))
		return cmd
	}
	return s
}

func profileAddress(at place) string { return strings.TrimSuffix(at.address, "9898") + "9899" }

// saveProfile writes what the agent holds in memory, for go tool pprof.
func (l *lab) saveProfile(r *running, name string) error {
	answer, err := http.Get("http://" + profileAddress(r.place) + "/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	err = os.MkdirAll(l.out, 0o755)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(l.out, "own-"+name+".pb.gz"))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, answer.Body)
	return errors.Join(err, f.Close())
}

// own reads the memory of an agent of both backends: after claims of its node were created and deleted, and with many
// volumes of its node, all of them bound.
func (l *lab) own(ctx context.Context, r *report) error {
	node, err := l.node(ctx, "own")
	if err != nil {
		return err
	}
	agent, err := l.start(ctx, profiled(), node, "")
	if err != nil {
		return err
	}
	defer func() { agent.stop() }()
	before, err := l.settled(ctx, agent)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("without volumes %s", before)
	half, churned, err := l.churn(ctx, agent)
	if err != nil {
		return agent.blame(err)
	}
	text += fmt.Sprintf("; after %d claims were made and deleted %s, and after %d %s", l.churned/2, half, l.churned, churned)
	l.say("resident %s", text)
	var all lives
	for len(all) < l.owned {
		made, err := l.createOwn(ctx, agent, min(ownBatch, l.owned-len(all)))
		if err != nil {
			return agent.blame(err)
		}
		all = append(all, made...)
		l.say("%d volumes are bound", len(all))
	}
	bound, err := l.settled(ctx, agent)
	if err != nil {
		return err
	}
	if err := l.saveProfile(agent, "bound"); err != nil {
		return err
	}
	agent.stop()
	if agent, err = l.start(ctx, profiled(), node, ""); err != nil {
		return err
	}
	started, err := l.settled(ctx, agent)
	if err != nil {
		return err
	}
	text += fmt.Sprintf("; with %d volumes of its own %s; an agent started then %s", l.owned, bound, started)
	l.say("resident %s", text)
	r.bound("own.rss", "MiB", max(bound.now, started.now), 128)
	if l.churned >= flatAfter {
		r.bound("own.churn", "MiB", churned.now-half.now, 4)
	}
	r.notes = append(r.notes, "Own volumes: "+text+".")
	return l.removeOwn(ctx, all)
}

// churn creates and deletes claims, and returns the memory after half of them and after all.
func (l *lab) churn(ctx context.Context, agent *running) (half, all resident, err error) {
	for done := 0; done < l.churned; {
		made, err := l.createOwn(ctx, agent, min(ownBatch, l.churned-done))
		if err == nil {
			err = l.remove(ctx, made)
		}
		if err != nil {
			return half, all, err
		}
		if done += len(made); done <= (l.churned+1)/2 {
			if half, err = l.settled(ctx, agent); err != nil {
				return half, all, err
			}
			l.say("after %d claims %s", done, half)
		}
	}
	all, err = l.settled(ctx, agent)
	return half, all, errors.Join(err, l.saveProfile(agent, "churn"))
}

// createOwn creates n claims on the agent's node, half of them of either backend, and waits until they are bound.
func (l *lab) createOwn(ctx context.Context, agent *running, n int) (all lives, err error) {
	for i, shape := range []string{shapeHostPath, shapeCSI} {
		small := agentOf(shape)
		small.size = ownSize
		made, err := l.createSpread(ctx, small, func(int) string { return agent.node }, (n+i)/2)
		if err != nil {
			return nil, err
		}
		all = append(all, made...)
	}
	return all, nil
}

// removeOwn deletes the claims in batches.
func (l *lab) removeOwn(ctx context.Context, all lives) error {
	for len(all) > 0 {
		n := min(ownBatch, len(all))
		if err := l.remove(ctx, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}
