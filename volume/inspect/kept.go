//go:build linux

package inspect

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/trash"
)

// keptEntries returns the deleted volumes that are kept, and how many bytes become free without them.
// Those that are being deleted, or brought back, are volumes of the report.
func keptEntries(d *pooldir.Dir, records *record.Store) (all []KeptEntry, frees int64, err error) {
	dir := d.Kept()
	if dir < 0 {
		return nil, 0, nil
	}
	names, err := file.List(dir, ".")
	if err != nil {
		return nil, 0, err
	}
	ids := map[string]bool{}
	for _, name := range names {
		if !strings.HasSuffix(name, record.Suffix) {
			ids[name] = true
		}
	}
	records.Each(func(r record.Record) {
		delete(ids, r.Returning)
		if !slices.Contains(names, r.Trash+record.Suffix) {
			delete(ids, r.Trash)
		}
	})
	saved := map[string]trash.Saved{}
	if data, err := file.Read(d.Private, trash.SavedName); err == nil {
		_ = json.Unmarshal(data, &saved) // as if there was none
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		var st unix.Stat_t
		if unix.Fstatat(dir, id, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // removed, or brought back meanwhile
		}
		was := saved[id].Bounded()
		k := KeptEntry{ID: id, Since: time.Unix(st.Ctim.Unix()).UTC(), Seconds: was.Seconds, Frees: was.Bytes}
		if r, err := trash.ReadWhole(dir, id); err == nil {
			k.Name, k.Bytes, k.Owner, k.PV, k.PVUID, k.Cluster = r.Name, r.Bytes, r.Owner, r.PV, r.PVUID, r.Cluster
			k.Created, k.Retention = r.Created, r.TrashRetention
		}
		frees += k.Frees
		all = append(all, k)
	}
	return all, frees, nil
}
