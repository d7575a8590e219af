package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	// The source of copies has copiedFiles files of copiedBytes each.
	copiedFiles, copiedBytes = 64, 4 << 20
	copiedSize               = "512Mi"
	copiedClass              = "copied"
)

// copies makes copies of a volume. Where blocks can be shared it compares them with an empty claim and cp,
// which both end on the disk. Elsewhere all is written, and it measures the latency of other claims meanwhile.
func (l *lab) copies(ctx context.Context, r *report) error {
	node, err := l.node(ctx, "copies")
	if err != nil {
		return err
	}
	agent, err := l.start(ctx, agentOf(shapeCSI), node, "")
	if err != nil {
		return err
	}
	defer agent.stop()
	if err := l.newCopiedClass(ctx); err != nil {
		return err
	}
	empty := agent.with(func(s *subject) { s.class, s.size = copiedClass, copiedSize })
	source, err := l.create(ctx, empty, 1)
	if err != nil {
		return agent.blame(err)
	}
	dir := filepath.Join(agent.pool, shapeCSI, "pvc-"+string(source[0].uid))
	if err := l.fillCopied(dir); err != nil {
		return err
	}
	copied := empty.with(func(s *subject) { s.from = source[0].name })
	if l.filesystem == "ext4" || l.filesystem == noDisk {
		err = l.besideCopies(ctx, r, agent, copied)
	} else {
		err = l.besideCp(ctx, r, empty, copied, dir)
	}
	if err != nil {
		return agent.blame(err)
	}
	return l.remove(ctx, source)
}

// besideCp compares a claim that is a copy with one that is empty and cp --reflink.
func (l *lab) besideCp(ctx context.Context, r *report, empty, copied *running, dir string) error {
	var sums, mine sample
	for range max(l.rounds, 3) {
		one, err := l.create(ctx, empty, 1)
		if err != nil {
			return err
		}
		begin, to := time.Now(), filepath.Join(l.pool, "cp")
		err = command("cp", "-a", "--reflink=always", dir, to)
		if err == nil {
			err = command("sync", "-f", to)
		}
		if err != nil {
			return err
		}
		sums = append(sums, one.each((*life).took)[0]+time.Since(begin).Seconds()*1000)
		if err := l.disk.rest(); err != nil {
			return err
		}
		two, err := l.create(ctx, copied, 1)
		if err != nil {
			return err
		}
		mine = append(mine, two.each((*life).took)...)
		if err := l.remove(ctx, append(one, two...)); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := l.disk.rest(); err != nil {
			return err
		}
	}
	f := figure{name: "copy." + l.filesystem, unit: "ms (limit: an empty claim and cp --reflink)", limit: sums.median(), agent: mine.median(),
		ratios: mine.by(sums), target: "<= 1.20"}
	f.met = f.ratios.median() <= 1.2
	r.add(f)
	return nil
}

// besideCopies compares the latency of claims while one copy after another is written with that before.
func (l *lab) besideCopies(ctx context.Context, r *report, agent, copied *running) error {
	quiet, err := l.beside(ctx, agent)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	made, ended := 0, make(chan error, 1)
	go func() {
		for {
			one, err := l.create(ctx, copied, 1)
			if err == nil {
				made++
				err = l.remove(ctx, one)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	busy, err := l.beside(ctx, agent)
	if err != nil {
		return err
	}
	stop()
	if err := <-ended; made == 0 {
		return fmt.Errorf("no copy was made within %s: %w", meanwhile, err)
	}
	l.say("%d copies of %s were written beside %d claims", made, copiedSize, len(busy))
	r.others("copy", quiet, busy)
	return nil
}

// with returns the running subject with other claims.
func (r *running) with(change func(*subject)) *running {
	other, s := *r, *r.subject
	change(&s)
	other.subject = &s
	return &other
}

func (l *lab) newCopiedClass(ctx context.Context) error {
	mode, policy := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	_, err := l.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: copiedClass}, Provisioner: harness.Driver, VolumeBindingMode: &mode, ReclaimPolicy: &policy,
		Parameters: map[string]string{harness.StoragePool: harness.LocalPool, "copy": "allowed"},
	}, metav1.CreateOptions{})
	return err
}

// fillCopied writes the files of the source, and waits until the disk has them.
func (l *lab) fillCopied(dir string) error {
	data := make([]byte, copiedBytes)
	for i := range copiedFiles {
		_, _ = rand.Read(data)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), data, 0o644); err != nil {
			return err
		}
	}
	return l.disk.rest()
}
