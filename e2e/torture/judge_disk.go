package torture

import (
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const annotation = harness.AnnProvisionOnNode

// once adds a finding if the key has another value already. The format takes the key and both
// values.
func once[K ~string](f *findings, seen map[K]string, key K, value, format string) {
	if first, ok := seen[key]; ok {
		f.add(Double, format, key, short(first), short(value))
	}
	seen[key] = value
}

// disk checks that its pools contain only what is needed, and that no more is allocated than the
// disk has.
func (f *findings) disk(s Sight, d SeenDisk) {
	var allocated int64
	limited := 0
	for _, p := range d.Pools {
		f.pool(s, p)
		allocated += p.Allocated
		for _, name := range p.Kept {
			if filepath.Ext(name) == "" { // with its record beside it
				limited++
			}
		}
		for _, v := range p.Volumes {
			if v.Quota > 0 {
				limited++
			}
		}
	}
	if allocated > d.Total {
		f.add(Double, "%s: %d bytes are allocated of a disk of %d", d.Filesystem, allocated, d.Total)
	}
	// That of a volume that is gone stays as long as copies have blocks of it.
	if len(d.Limits) > limited && len(d.Unused) > 0 {
		f.add(Leaked, "%s: %d volumes have limits, and there are these, of which %v count nothing: %v", d.Filesystem, limited,
			d.Unused, d.Limits)
	}
}

func (f *findings) pool(s Sight, p SeenPool) {
	var recorded int64
	records := p.volumes()
	for _, v := range p.Volumes {
		recorded += v.Bytes
		pv, claim := s.pv(v.PV), s.claim(types.UID(v.Owner.UID))
		elsewhere := pv != nil && s.pool(pv.Node, pv.Directory) != nil && s.pool(pv.Node, pv.Directory).Path != p.Path
		if pv == nil && claim == nil || elsewhere {
			f.add(Leaked, "the record %+v in %s belongs to no claim and no PV here", v, short(p.Path))
		}
		if m := v.Migration; m != nil && m.Step != "done" {
			f.add(Leaked, "the migration of volume %s in %s is at step %q and does not end: %s", v.Name, short(p.Path), m.Step,
				m.Stopped)
		}
	}
	for _, name := range p.Directories {
		if _, ok := records[name]; !ok && s.pv(name) == nil {
			f.add(Leaked, "the directory %s in %s has no record and no PV", name, short(p.Path))
		}
	}
	for _, rest := range []struct {
		where string
		names []string
	}{{"staging", p.Staging}, {"trash", p.Trash}} {
		if len(rest.names) > 0 {
			f.add(Leaked, "%s of %s holds %v", rest.where, short(p.Path), rest.names)
		}
	}
	if p.Allocated > recorded {
		f.add(Leaked, "the agent of %s holds %d bytes allocated, its records say %d", short(p.Path), p.Allocated, recorded)
	}
	if p.Allocated < recorded {
		f.add(Double, "the agent of %s holds %d bytes allocated, its records have %d: the rest can be allocated twice",
			short(p.Path), p.Allocated, recorded)
	}
	if len(p.Damaged) > 0 {
		f.add(Lost, "%s has damaged records: %v", short(p.Path), p.Damaged)
	}
}

// Rest returns what is left after everything was deleted.
func Rest(s Sight) []Finding {
	var f findings
	for _, c := range s.Claims {
		f.add(Leaked, "after all was deleted: claim %s", c.Name)
	}
	for _, pv := range s.PVs {
		f.add(Leaked, "after all was deleted: PV %s on %s, %s, finalizers %v", pv.Name, pv.Node, pv.Status.Phase,
			pv.Finalizers)
	}
	for _, d := range s.Disks {
		for _, p := range d.Pools {
			if all := slices.Concat(p.Directories, p.Staging, p.Trash, p.Kept); len(all)+len(p.Volumes) > 0 || p.Allocated != 0 {
				f.add(Leaked, "after all was deleted: %s holds %v, %d records, %d bytes allocated", short(p.Path), all,
					len(p.Volumes), p.Allocated)
			}
		}
		if len(d.Limits) > 0 {
			f.add(Leaked, "after all was deleted: %s has the limits %v", d.Filesystem, d.Limits)
		}
	}
	return f
}
