package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// follow ends the agent when the configuration gives this node other directories.
func (a *Agent) follow(ctx context.Context) error {
	return a.localPath.file.Follow(ctx, a.recorder, newLocalPools(a))
}

// localPools implements localpath.Pools.
type localPools struct {
	*Agent
	sweeps sweeps
	asked  map[string]time.Time // when gone asked for a PV
	mu     sync.Mutex
	hung   map[string]bool // paths that did not respond to a check; guarded by mu
}

func newLocalPools(a *Agent) *localPools {
	return &localPools{Agent: a, hung: map[string]bool{}, asked: map[string]time.Time{}}
}

// sweeps bounds how often the configuration has all PVs of the cluster read. Only Follow uses it.
type sweeps struct {
	at, next time.Time // of the last one, and before which there is no other one
	pause    time.Duration
}

const (
	sweepFirst = 10 * time.Second
	sweepLast  = time.Hour
	// sweptNow is for how long a sweep counts: one poll of the file asks about several directories.
	sweptNow = 5 * time.Second
)

// do calls sweep unless it was called just now, and reports whether the last one succeeded. Each
// call doubles the pause before the next one.
func (s *sweeps) do(sweep func() error) bool {
	switch now := time.Now(); {
	case now.Sub(s.at) < sweptNow:
		return true
	case now.Before(s.next):
		return false
	case now.Sub(s.next) > sweepLast:
		s.pause = 0
	}
	err := sweep()
	s.pause = sleep.Doubled(s.pause, sweepFirst, sweepLast)
	s.next = time.Now().Add(s.pause)
	if err == nil {
		s.at = time.Now()
	}
	return err == nil
}

// Check implements localpath.Pools.
func (l *localPools) Check(paths []string) error {
	next, err := l.newLayout(append(slices.Clone(paths), l.localPath.file.Former()...), l.check)
	if err != nil {
		return err
	}
	out, before := next.leftOut(), l.layout.leftOut()
	for _, path := range slices.Sorted(maps.Keys(out)) {
		if before[path] == "" {
			return fmt.Errorf("path %s: %s", path, out[path])
		}
	}
	return nil
}

// Returned implements localpath.Pools. A path that does not respond may be what it was: the agent does
// not start again for it.
func (l *localPools) Returned() bool {
	before := l.layout.leftOut()
	if len(before) == 0 {
		return false
	}
	next, err := l.newLayout(l.localPath.paths(), l.check)
	if err != nil {
		return false
	}
	now := next.leftOut()
	l.mu.Lock()
	defer l.mu.Unlock()
	for path := range before {
		if l.hung[path] {
			now[path] = "it does not respond"
		}
	}
	return len(now) < len(before)
}

// check is DataDir.check for a directory that is no pool of this agent yet. A path that does not
// respond is checked once: each check of it keeps a thread.
func (l *localPools) check(d *DataDir) error {
	if pool := l.poolAt(d.Path); pool != nil && pool.NotOffered() == "" && d.configured {
		return nil
	}
	l.mu.Lock()
	hung := l.hung[d.Path]
	l.mu.Unlock()
	if hung {
		return nil
	}
	err := d.check()
	if errors.As(err, new(*fault.HangError)) {
		l.mu.Lock()
		l.hung[d.Path] = true
		l.mu.Unlock()
	}
	return err
}

// Held implements localpath.Pools. PV_DIR is not held: it stays a pool.
func (l *localPools) Held(ctx context.Context, path string) string {
	pool := l.poolAt(path)
	if pool == nil || path == filepath.Join("/", l.pvDir) {
		return ""
	}
	switch volumes, err := pool.List(); {
	case len(volumes) > 0:
		return "has volumes: list it again until they are deleted"
	case err == nil: // the PV of a volume is deleted after it
	case pool.ID() != "":
		return "was open, is not ready, and may have volumes: list it again until it is ready and has none"
	case errors.Is(err, fault.ErrNotOpened):
		return "is not opened yet: list it again until the agent is ready"
	}
	// It has no volumes, or it was never open, and may be a wrong path. A PV that names it is an
	// answer, while it exists. That there is none is an answer only right after a sweep.
	pv := l.namedBy(pool)
	if pv != "" && l.gone(ctx, pv) {
		pv, l.sweeps = "", sweeps{}
	}
	if pv == "" && !l.sweeps.do(func() error { return l.pvs.Sweep(ctx) }) {
		return "may have volumes: list it again until the agent has read all PVs, which it tries within an hour"
	}
	if pv = cmp.Or(pv, l.namedBy(pool)); pv != "" {
		return fmt.Sprintf("PV %s names: list it again until no PV names it", pv)
	}
	return ""
}

// gone asks the API server whether a PV does not exist any more, once a minute: the agent's watch
// does not cover a PV of a pool that it cannot serve.
func (l *localPools) gone(ctx context.Context, pv string) bool {
	if time.Since(l.asked[pv]) < time.Minute {
		return false
	}
	l.asked[pv] = time.Now()
	now, err := live.PV(ctx, l.client, pv)
	return now == nil && err == nil
}

// home returns the pool at PV_DIR, which has the note of the others that have volumes.
func (l *localPools) home() *volume.Pool { return l.poolAt(filepath.Join("/", l.pvDir)) }

// Writable implements localpath.Pools.
func (l *localPools) Writable() bool { return l.home().Ready() == nil }

// Note implements localpath.Pools. While the pool at PV_DIR is not ready, Note does nothing. A
// directory that is not ready keeps its note until it is held no more.
func (l *localPools) Note(ctx context.Context, configured []string) (again, noted bool) {
	log, home := klog.FromContext(ctx), l.home()
	before, err := home.Paths()
	if err != nil && !errors.Is(err, fault.ErrDamaged) {
		return false, false
	}
	var now []string
	for _, path := range slices.Compact(slices.Sorted(slices.Values(append(configured, before...)))) {
		pool := l.poolAt(path)
		if pool == nil {
			again = true
			now = append(now, path)
		} else if pool != home && l.hasVolumes(ctx, pool, slices.Contains(before, path)) {
			now = append(now, path)
		}
	}
	if !slices.Equal(now, before) {
		if err := home.SetPaths(now); err != nil {
			log.Error(err, "It was not noted which paths of config.json have volumes", "paths", now)
			return again, false
		}
	}
	return again, true
}

// hasVolumes reports whether the pool has volumes; if that is unknown, or if it has none any more,
// whether it had, and is held.
func (l *localPools) hasVolumes(ctx context.Context, pool *volume.Pool, had bool) bool {
	if volumes, err := pool.List(); err == nil && len(volumes) > 0 {
		return true
	}
	return had && l.Held(ctx, pool.Path()) != ""
}

// namedBy returns a PV that names a directory in the pool, "" if there is none.
func (l *localPools) namedBy(pool *volume.Pool) string {
	for _, pv := range l.pvs.All() {
		if named, _ := l.pvs.Names(pv); named == pool {
			return pv.Name
		}
	}
	return ""
}

// poolAt returns the pool of the dialect at a path, nil if there is none.
func (l *localPools) poolAt(path string) *volume.Pool {
	for _, name := range l.layout.hostPath[contract.LocalPathProvisioner] {
		if pool := l.pools.Named(name); pool.Path() == path {
			return pool
		}
	}
	return nil
}
