package volume

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/enforce"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/trash"
)

// Report is what a pool's directory says of itself.
type Report struct {
	Pool     PoolReport     `json:"pool"`
	Space    Space          `json:"space"`
	Volumes  []VolumeReport `json:"volumes"` // every record, by name
	Trash    []TrashReport  `json:"trash"`   // what a purge will remove, by ID
	Damaged  []string       `json:"damaged,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
	// Unrecorded are directories that no record knows. What mounts them is not
	// looked at.
	Unrecorded []Unrecorded `json:"unrecorded,omitempty"`
}

// PoolReport is the pool itself.
type PoolReport struct {
	Path    string    `json:"path"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	// Holder is what the last process to own the pool wrote into the lock;
	// Held whether some process owns it now.
	Holder string `json:"holder,omitempty"`
	Held   bool   `json:"held"`
	// Limits is the method by which limits are enforced, and Unlimited says
	// why there is none.
	Limits    string `json:"limits"`
	Unlimited string `json:"unlimited,omitempty"`
}

// VolumeReport is one record, and whether its directory is there.
type VolumeReport struct {
	Name          string    `json:"name"`
	State         State     `json:"state"`
	Bytes         int64     `json:"bytes"`
	Owner         Owner     `json:"owner,omitzero"`
	PV            string    `json:"pv,omitempty"`
	ReclaimPolicy string    `json:"reclaimPolicy,omitempty"`
	Missing       bool      `json:"missing,omitempty"`
	Adopted       bool      `json:"adopted,omitempty"`
	Ephemeral     bool      `json:"ephemeral,omitempty"`
	Created       time.Time `json:"created"`
	// Migration says how far the volume's PV is on its way to another kind; nil
	// where it never was.
	Migration *MigrationReport `json:"migration,omitempty"`
	// Orphan is what the agent last noted of a volume whose PV is gone.
	Orphan Orphan `json:"orphan,omitzero"`
	// Limit and Used are bytes as the kernel has them now; 0 where it holds
	// the volume to nothing.
	Limit int64 `json:"limit,omitempty"`
	Used  int64 `json:"used,omitempty"`
}

// MigrationReport is a Migration without the PVs.
type MigrationReport struct {
	Step    MigrationStep `json:"step"`
	To      string        `json:"to"`
	Stopped string        `json:"stopped,omitempty"`
	Began   time.Time     `json:"began"`
	Changed time.Time     `json:"changed"`
}

// TrashReport is one volume in the trash. Its promise was returned; Name and
// Bytes are those of its record, if that is still there.
type TrashReport struct {
	ID    string    `json:"id"`
	Name  string    `json:"name,omitempty"`
	Bytes int64     `json:"bytes,omitempty"`
	Since time.Time `json:"since"`
	// Stuck is why the agent's last purge could not remove it.
	Stuck string `json:"stuck,omitempty"`
}

// Inspect reads the pool at path without owning it, so it works beside the
// process that does, and changes nothing. It knows no configuration: Space is
// as for a pool without reserve and overcommit, and the use is known of volumes
// with a limit only.
// What changes while it reads may be seen before or after.
//
// The error is ErrNotReady where there is no pool, or its disk does not answer.
func Inspect(path string) (Report, error) {
	const op = "inspect pool"
	path = filepath.Join("/", path)
	var r Report
	err := bounded.Alone(op, path, func(c *bounded.Call) (err error) {
		d, err := pooldir.OpenToRead(path)
		if err != nil {
			return err
		}
		defer d.Close()
		r, err = inspect(&handle{Dir: d, call: c}, path)
		return err
	})
	if err != nil {
		return Report{}, fault.Failed(op, path, err)
	}
	return r, nil
}

func inspect(h *handle, path string) (r Report, err error) {
	r.Pool = PoolReport{Path: path, ID: h.ID.ID, Created: h.ID.Created, Held: h.Held(), Holder: h.Holder()}
	all, err := record.Load(h.recordDirs())
	if err != nil {
		return r, err
	}
	records := record.NewStore(func(string) {})
	records.Reset(all)
	l := space.NewLedger(records, 0, 1)
	enforcer, err := quota.Probe(h.Base, quota.Hooks{})
	if err != nil {
		return r, err
	}
	support := enforcer.Support()
	r.Pool.Limits, r.Pool.Unlimited = string(support.Method), support.Reason
	r.Volumes = inspectVolumes(h, enforcer, records, l)
	st, err := h.Statfs()
	if err != nil {
		return r, err
	}
	r.Space = l.Alone(st)
	if r.Unrecorded, err = inspectUnrecorded(h, records); err != nil {
		return r, err
	}
	r.Damaged = damagedLines(all.Damaged)
	r.Warnings = pooldir.LooseMode(h.Base, path)
	r.Trash, err = inspectTrash(h)
	return r, err
}

func inspectVolumes(h *handle, enforcer quota.Enforcer, records *record.Store, l *space.Ledger) []VolumeReport {
	all := []VolumeReport{}
	for _, r := range records.Sorted(func(Record) bool { return true }) {
		h.call.Progress()
		there, err := file.IsDir(h.Base, r.Name)
		u, unlimited := enforce.Usage(enforcer, h.Base, r)
		if unlimited != nil || r.QuotaID == 0 {
			u = quota.Usage{}
		} else {
			l.Inspected(r.Name, u)
		}
		all = append(all, VolumeReport{
			Name: r.Name, State: h.meaning(r, there), Bytes: r.Bytes, Owner: r.Owner, PV: r.PV, ReclaimPolicy: r.ReclaimPolicy,
			Missing: err == nil && !there, Adopted: r.Adopted, Ephemeral: r.Ephemeral, Created: r.Created,
			Migration: inspectMigration(r.Migration), Orphan: r.Orphan,
			Limit: u.Limit.Bytes, Used: u.Bytes,
		})
	}
	return all
}

// meaning is the state that a start would find: a volume in place is ready before
// its record says so.
func (h *handle) meaning(r Record, there bool) State {
	if r.State != Creating || !there {
		return r.State
	}
	if staged, err := file.Exists(h.Staging, r.Name); staged || err != nil {
		return r.State
	}
	return Ready
}

func inspectMigration(m *Migration) *MigrationReport {
	if m == nil {
		return nil
	}
	return &MigrationReport{Step: m.Step, To: m.To, Stopped: m.Stopped, Began: m.Began, Changed: m.Changed}
}

func inspectTrash(h *handle) ([]TrashReport, error) {
	names, err := file.List(h.Private, pooldir.TrashName)
	if err != nil {
		return nil, err
	}
	byID := map[string]TrashReport{}
	for _, name := range names {
		var st unix.Stat_t
		if file.IsTemporary(name) || unix.Fstatat(h.Trash, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // being written, or purged meanwhile
		}
		id, isRecord := strings.CutSuffix(name, record.Suffix)
		t := byID[id]
		// A change time is that of the rename into the trash; the directory's own
		// only until the purge changes it.
		t.ID = id
		if isRecord {
			t.Since = time.Unix(st.Ctim.Unix()).UTC()
			if r, err := trash.ReadRecord(h.Dir, id); err == nil {
				t.Name, t.Bytes, t.Stuck = r.Name, r.Bytes, r.Stuck
			}
		} else if t.Since.IsZero() {
			t.Since = time.Unix(st.Ctim.Unix()).UTC()
		}
		byID[id] = t
	}
	all := make([]TrashReport, 0, len(byID))
	for _, t := range byID {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b TrashReport) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
