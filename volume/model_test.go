package volume_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A model has the results that callers of a pool got, while random calls, kills, restarts, a disk
// that goes and comes back, and callers that leave follow each other.
type model struct {
	dir     string // of the test
	p       *volume.Pool
	disk    *hanging
	life    *life
	volumes map[string]*modelled
	// deleting is the volume of the deletion that is under way.
	deleting string
	broken   []string // found while a call was under way
	// kept are the deleted volumes that are kept, by ID.
	kept  map[string]*modelled
	files int // that were written, to tell them apart
}

// modelled is a volume that Create returned, or may have.
type modelled struct {
	bytes int64
	data  string // of its file
	// unsure is set if a call without an answer may have created, grown or deleted it.
	unsure bool
}

const modelPatience = 250 * time.Millisecond

func (m *model) path() string { return filepath.Join(m.dir, "pool") }

// start opens the pool in a new process.
func (m *model) start(t *rapid.T) {
	m.disk, m.life = &hanging{stopped: map[string]int{}}, &life{}
	p, err := volume.New(volume.Config{Name: "pool", Path: m.path(), Patience: modelPatience, TrashRetention: time.Hour, Figures: roomy, Step: func(step string) {
		m.life.step(step)
		m.stays(step)
		m.disk.step(step)
	}})
	if err != nil {
		t.Fatal(err)
	}
	m.p = p
	if err := p.Open(); err != nil {
		m.ready(err)
	}
}

// ready waits until the pool is ready if the error is ErrNotReady: a call may take longer on a
// busy machine than its caller waits. It reports whether it was that.
func (m *model) ready(err error) bool {
	if !errors.Is(err, volume.ErrNotReady) {
		return false
	}
	for m.p.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return true
}

// stays checks that a volume's bytes stay allocated until its deletion is decided.
func (m *model) stays(step string) {
	if m.deleting == "" || step != "delete.rename" && step != "delete.sync" {
		return
	}
	if s, err := m.p.Space(); err == nil && s.Allocated < m.sure() {
		m.broken = append(m.broken, fmt.Sprintf("at %s of %s %d bytes are allocated, want %d", step, m.deleting, s.Allocated, m.sure()))
	}
}

// sure returns the bytes of the volumes that are certainly there.
func (m *model) sure() (sum int64) {
	for _, v := range m.volumes {
		if !v.unsure {
			sum += v.bytes
		}
	}
	return sum
}

// call makes a call and returns its error. killed is set if the process died in it, or its caller
// has left; the pool is open again.
func (m *model) call(t *rapid.T, do func() error) (killed bool, err error) {
	at := 0
	if rapid.IntRange(0, 4).Draw(t, "kill") == 0 {
		at = rapid.IntRange(1, 8).Draw(t, "step")
	}
	if at == 0 {
		err = do()
		return m.ready(err), err
	}
	m.life = &life{at: at, armed: true}
	if killed, err = m.life.live(do); killed {
		m.p.Close()
		m.start(t)
	} else {
		m.life.set(false)
		killed = m.ready(err)
	}
	return killed, err
}

func (m *model) name(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
}

func (m *model) create(t *rapid.T) {
	name, bytes := m.name(t), int64(rapid.IntRange(1, 4).Draw(t, "MiB"))*mib
	v := m.volumes[name]
	if r, _ := m.p.Cached(name); r.Source != nil {
		t.Skip("it is a copy")
	}
	killed, err := m.call(t, func() error { _, err := m.p.Create(spec(name, bytes)); return err })
	switch {
	case v == nil && killed:
		m.volumes[name] = &modelled{bytes: bytes, unsure: true}
	case v == nil && err != nil:
		t.Fatalf("create %s: %v", name, err)
	case v == nil:
		m.volumes[name] = &modelled{bytes: bytes}
		m.fill(t, name)
	case !v.unsure && err == nil != (bytes == v.bytes) && !killed:
		t.Fatalf("create %s again with %d, it has %d: %v", name, bytes, v.bytes, err)
	}
	m.settle(t, name)
}

// clone makes a volume as a copy of another one: with all of it, or not at all.
func (m *model) clone(t *rapid.T) {
	name, from := m.name(t), m.name(t)
	source := m.volumes[from]
	if name == from || source == nil || m.volumes[name] != nil {
		t.Skip("no source, or the name is taken")
	}
	killed, err := m.call(t, func() error {
		_, err := awaited(m.p, cloneFrom(m.p, from, spec(name, source.bytes)))
		return err
	})
	if j, running := m.p.CloneJob(name); running {
		<-j.Ended
	}
	if !killed && err != nil {
		t.Fatalf("clone %s of %s: %v", name, from, err)
	}
	_, there := m.p.Get(name)
	if killed && errors.Is(there, volume.ErrNotFound) {
		if err := m.p.Recover(); err != nil {
			t.Fatalf("recover: %v", err)
		}
		return
	}
	m.volumes[name] = &modelled{bytes: source.bytes, data: source.data}
}

func (m *model) fill(t *rapid.T, name string) {
	m.files++
	data := fmt.Sprint(name, m.files)
	if err := os.WriteFile(filepath.Join(m.path(), name, "data"), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	m.volumes[name].data = data
}

func (m *model) grow(t *rapid.T) {
	name, more := m.name(t), int64(rapid.IntRange(0, 2).Draw(t, "MiB"))*mib
	v := m.volumes[name]
	if v == nil {
		t.Skip("no volume")
	}
	killed, err := m.call(t, func() error { _, err := m.p.Expand(name, v.bytes+more); return err })
	switch {
	case killed:
		v.unsure = true
	case err != nil:
		t.Fatalf("grow %s: %v", name, err)
	default:
		v.bytes += more
	}
	m.settle(t, name)
}

func (m *model) delete(t *rapid.T) {
	name := m.name(t)
	deleted := m.deleted(name)
	m.deleting = name
	killed, err := m.call(t, func() error { return m.p.Delete(name) })
	m.deleting = ""
	switch v := m.volumes[name]; {
	case killed && v != nil:
		v.unsure = true
	case killed:
	case err != nil:
		t.Fatalf("delete %s: %v", name, err)
	default:
		deleted()
	}
	m.settle(t, name)
}

// left has the caller of a deletion leave while the disk hangs: no data is gone then.
func (m *model) left(t *rapid.T) {
	name, at := m.name(t), rapid.SampledFrom([]string{"delete.rename", "delete.sync"}).Draw(t, "hangs at")
	if m.volumes[name] == nil {
		t.Skip("no volume")
	}
	if r, _ := m.p.Cached(name); r.Unused() {
		t.Skip("the deletion of a copy that no PV names is decided at once")
	}
	m.disk.hang(at)
	deleted := m.deleted(name)
	err := m.p.Delete(name)
	m.disk.thaw()
	if !errors.Is(err, volume.ErrNotReady) {
		t.Fatalf("delete %s on a disk that hangs: %v", name, err)
	}
	m.ready(err)
	if rapid.Bool().Draw(t, "restart") {
		m.reopen(t)
	}
	if _, err := m.p.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "kept") {
		if err := m.p.Restore(name); err != nil {
			t.Fatalf("restore %s: %v", name, err)
		}
	} else if err := m.p.Delete(name); err != nil {
		t.Fatalf("delete %s again: %v", name, err)
	} else {
		deleted()
	}
}

func (m *model) bind(t *rapid.T) {
	name := m.name(t)
	if m.volumes[name] == nil {
		t.Skip("no volume")
	}
	if killed, err := m.call(t, func() error { _, err := m.p.Bind(name, binding(name)); return err }); !killed && err != nil {
		t.Fatalf("bind %s: %v", name, err)
	}
}

// deleted returns what a deletion makes of a volume: it is kept if it was bound.
func (m *model) deleted(name string) func() {
	r, _ := m.p.Cached(name)
	return func() {
		if v := m.volumes[name]; v != nil && r.State == record.Bound {
			m.kept[r.Trash] = v
		}
		delete(m.volumes, name)
	}
}

// anyKept returns one of the kept volumes.
func (m *model) anyKept(t *rapid.T) (id, name string) {
	if len(m.kept) == 0 {
		t.Skip("nothing is kept")
	}
	id = rapid.SampledFrom(slices.Sorted(maps.Keys(m.kept))).Draw(t, "kept")
	for _, k := range m.p.Kept() {
		if k.ID == id {
			name = k.Record.Name
		}
	}
	return id, name
}

func (m *model) keeps(id string) bool {
	return slices.ContainsFunc(m.p.Kept(), func(k volume.Kept) bool { return k.ID == id })
}

func (m *model) undelete(t *rapid.T) {
	id, name := m.anyKept(t)
	killed, err := m.call(t, func() error { _, err := m.p.Undelete(id); return err })
	switch {
	case m.volumes[name] != nil:
		if !killed && !errors.Is(err, volume.ErrConflict) {
			t.Fatalf("undelete %s over another volume: %v", name, err)
		}
	case killed && m.keeps(id):
	case !killed && err != nil:
		t.Fatalf("undelete %s: %v", name, err)
	default:
		m.volumes[name] = m.kept[id]
		delete(m.kept, id)
	}
}

// undeleteLeft has the caller of an undelete leave while the disk hangs: the volume is kept, or comes back.
func (m *model) undeleteLeft(t *rapid.T) {
	id, name := m.anyKept(t)
	at := rapid.SampledFrom([]string{"undelete.record", "restore.rename", "restore.sync", "restore.done", "undelete.done"}).Draw(t, "hangs at")
	if m.volumes[name] != nil {
		t.Skip("the name is taken")
	}
	m.disk.hang(at)
	_, err := m.p.Undelete(id)
	m.disk.thaw()
	if !errors.Is(err, volume.ErrNotReady) {
		t.Fatalf("undelete %s on a disk that hangs: %v", name, err)
	}
	m.ready(err)
	if rapid.Bool().Draw(t, "restart") {
		m.reopen(t)
	}
	if err := m.p.Restore(name); err != nil && !errors.Is(err, volume.ErrNotFound) { // waits for the call
		t.Fatalf("restore %s: %v", name, err)
	}
	if !m.keeps(id) {
		m.volumes[name] = m.kept[id]
		delete(m.kept, id)
	}
}

func (m *model) drop(t *rapid.T) {
	id, name := m.anyKept(t)
	killed, err := m.call(t, func() error { return m.p.DropKept(id) })
	if !killed && err != nil {
		t.Fatalf("drop %s: %v", name, err)
	}
	if !killed || !m.keeps(id) {
		delete(m.kept, id)
	}
}

func (m *model) purge(t *rapid.T) {
	if killed, err := m.call(t, func() error { _, err := m.p.Purge(t.Context()); return err }); !killed && err != nil {
		t.Fatal(err)
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.p.Close(); err != nil {
		t.Fatal(err)
	}
	m.start(t)
}

// away takes the disk away: nothing works, and nothing is lost.
func (m *model) away(t *rapid.T) {
	if err := os.Rename(m.path(), m.path()+".away"); err != nil {
		t.Fatal(err)
	}
	name := m.name(t)
	_, err := m.p.Create(spec(name, mib))
	if err2 := m.p.Delete(name); !errors.Is(err, volume.ErrNotReady) || !errors.Is(err2, volume.ErrNotReady) {
		t.Fatalf("without a disk: %v, %v", err, err2)
	}
	if err := os.Rename(m.path()+".away", m.path()); err != nil {
		t.Fatal(err)
	}
	m.ready(volume.ErrNotReady)
}

// settle asks how a volume is after a call without an answer, and decides an unfinished deletion.
func (m *model) settle(t *rapid.T, name string) {
	v := m.volumes[name]
	if v == nil || !v.unsure {
		return
	}
	if slices.ContainsFunc(m.p.SetAside(), func(r record.Record) bool { return r.Name == name }) {
		if err := m.p.Restore(name); err != nil {
			t.Fatalf("restore %s: %v", name, err)
		}
	}
	switch now, err := m.p.Get(name); {
	case errors.Is(err, volume.ErrNotFound):
		for _, k := range m.p.Kept() {
			if m.kept[k.ID] == nil && k.Record.Name == name {
				m.kept[k.ID] = &modelled{bytes: k.Record.Bytes, data: v.data}
			}
		}
		delete(m.volumes, name)
	case err != nil:
		t.Fatal(err)
	default:
		if _, err := os.Stat(filepath.Join(now.Path, "data")); err != nil {
			m.fill(t, name) // it was created, and no caller has the result
		}
		*v = modelled{bytes: now.Bytes, data: v.data}
	}
}

// check holds the pool against the model.
func (m *model) check(t *rapid.T) {
	for _, text := range m.broken {
		t.Error(text)
	}
	for _, name := range []string{"a", "b", "c"} {
		now, err := m.p.Get(name)
		v := m.volumes[name]
		if v == nil {
			if !errors.Is(err, volume.ErrNotFound) || errors.Is(err, volume.ErrSetAside) {
				t.Errorf("%s was deleted: %+v, %v", name, now, err)
			}
			continue
		}
		data, unread := os.ReadFile(filepath.Join(m.path(), name, "data"))
		if err != nil || now.Bytes != v.bytes || string(data) != v.data || unread != nil {
			t.Errorf("%s is %d bytes, %v, with %q, %v; want %d", name, now.Bytes, err, data, unread, v.bytes)
		}
	}
	for _, k := range m.p.Kept() {
		v := m.kept[k.ID]
		data, unread := os.ReadFile(filepath.Join(m.path(), keptDir, k.ID, "data"))
		if v == nil || string(data) != v.data || unread != nil || k.Record.Bytes != v.bytes || k.Why != "" {
			t.Errorf("kept is %+v with %q, %v; want %+v", k, data, unread, v)
		}
	}
	if n := len(m.p.Kept()); n != len(m.kept) {
		t.Errorf("%d volumes are kept, want %d", n, len(m.kept))
	}
	if s, err := m.p.Space(); err != nil || s.Allocated != m.sure() {
		t.Errorf("allocated %d, %v; want %d", s.Allocated, err, m.sure())
	}
}

// TestModel makes random calls. A failure prints the shortest story that rapid finds; -rapid.checks
// makes more of them.
func TestModel(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("20")
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{dir: t.TempDir(), volumes: map[string]*modelled{}, kept: map[string]*modelled{}}
		m.start(rt)
		defer func() { m.p.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"": m.check, "create": m.create, "clone": m.clone, "grow": m.grow, "bind": m.bind, "delete": m.delete, "undelete": m.undelete, "caller of undelete gone": m.undeleteLeft,
			"drop": m.drop, "caller gone": m.left,
			"purge": m.purge, "reopen": m.reopen, "disk away": m.away,
		})
	})
}
