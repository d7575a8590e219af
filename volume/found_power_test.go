//go:build power

package volume_test

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// found reads what is there of every name.
func (j *judge) found() (map[string]known, error) {
	all := map[string]known{}
	volumes, err := j.pool.List()
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		all[v.Name] = j.recordOf(v.Record)
		if j.quota && !v.Adopted && !v.Missing {
			u, err := inForce(v.Path) // that of a source is larger, and on XFS that of a copy; see docs/on-disk-clones.md
			larger := j.account.sources[v.Name] || v.Source != nil
			if err != nil || u.Limit.Bytes != v.Bytes && (!larger || u.Limit.Bytes < v.Bytes) {
				j.fault(v.Name, "the quota is %+v, %v, want %d bytes", u.Limit, err, v.Bytes)
			}
		}
	}
	for _, r := range j.pool.SetAside() {
		k := j.recordOf(r)
		if k.Aside = j.directory(filepath.Join(trash, r.Trash)); k.Aside == nil {
			k.Aside = j.directory(filepath.Join(keptDir, r.Trash))
		}
		all[r.Name] = k
	}
	for _, e := range j.pool.Kept() {
		k := all[e.Record.Name]
		k.Kept = append(k.Kept, keptKnown{UID: e.Record.Owner.UID, Bytes: e.Record.Bytes, Dir: j.directory(filepath.Join(keptDir, e.ID))})
		all[e.Record.Name] = k
	}
	for _, name := range j.names(records) {
		if _, ok := all[name]; !ok {
			j.fault(name, "its record is left over")
		}
	}
	for _, name := range j.names(".") {
		if name == private {
			continue
		}
		k := all[name]
		k.Place = j.directory(name)
		all[name] = k
	}
	return all, nil
}

func (j *judge) recordOf(r record.Record) known {
	k := known{Record: true, UID: r.Owner.UID, Bytes: r.Bytes, Adopted: r.Adopted, Orphan: r.Orphan.Why}
	if r.State == record.Bound {
		k.Bound = surely
	}
	return k
}

// directory reads one below the pool, nil if there is none.
func (j *judge) directory(name string) *directory {
	var st unix.Stat_t
	path := filepath.Join(j.path, name)
	if err := unix.Lstat(path, &st); err != nil {
		if err != unix.ENOENT {
			j.failed(name, "stat", err)
		}
		return nil
	}
	d := &directory{Mode: st.Mode & 0o7777, Owner: st.Uid, Files: map[string]string{}}
	for _, file := range j.names(name) {
		data, err := os.ReadFile(filepath.Join(path, file))
		j.failed(name, "read", err)
		d.Files[file] = hashOf(data)
	}
	return d
}

// everything describes each file of the pool, by its path.
func (j *judge) everything() map[string]string {
	all := map[string]string{}
	_ = filepath.WalkDir(j.path, func(path string, e fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err = orErr(err, func() error { return unix.Lstat(path, &st) }); err != nil {
			all[path] = err.Error()
			return nil
		}
		sum := fnv.New64()
		if !e.IsDir() && e.Name() != "lock" { // which names the process
			data, err := os.ReadFile(path)
			j.failed("", "read", err)
			sum.Write(data)
		}
		all[path] = fmt.Sprintf("mode %o of %d:%d, inode %d, content %x", st.Mode, st.Uid, st.Gid, st.Ino, sum.Sum64())
		return nil
	})
	return all
}

// same adds what a second start changed to the faults: nothing was left to recover.
func (j *judge) same(before, after map[string]string) {
	for path, text := range before {
		if after[path] != text {
			j.fault("", "a second start changed %s: %s, then %q", path, text, after[path])
		}
	}
	for path, text := range after {
		if _, ok := before[path]; !ok {
			j.fault("", "a second start made %s: %s", path, text)
		}
	}
}
