package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// Report describes a pool as it is on the disk.
type Report struct {
	// Version is that of this description; see Decode.
	Version int          `json:"version"`
	Pool    Pool         `json:"pool"`
	Space   space.Space  `json:"space"`
	Volumes []Volume     `json:"volumes"` // every record, by name
	Trash   []TrashEntry `json:"trash"`   // what a purge will remove, by ID
	// Kept are the deleted volumes that can be brought back, by ID.
	Kept     []KeptEntry `json:"kept,omitempty"`
	Damaged  []string    `json:"damaged,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
	// Unrecorded are directories without a record, by name. Mounts on them are not checked.
	Unrecorded []Unrecorded `json:"unrecorded,omitempty"`
}

// Pool describes the pool itself.
type Pool struct {
	// Name is the pool's, if the agent's settings are known, and Reserve what they keep free.
	Name    string `json:"name,omitempty"`
	Reserve int64  `json:"reserve,omitempty"`
	Path    string `json:"path"`
	// Filesystem is the kernel's number of the filesystem: that of all pools of a node which share one.
	Filesystem string    `json:"filesystem,omitempty"`
	ID         string    `json:"id"`
	Created    time.Time `json:"created"`
	// Holder is what the last process to own the pool wrote into the lock; Held is
	// true while a process owns it.
	Holder string `json:"holder,omitempty"`
	Held   bool   `json:"held"`
	// Quotas is how the kernel enforces quotas, and NoQuotas the reason if it does not.
	Quotas   string `json:"quotas"`
	NoQuotas string `json:"noQuotas,omitempty"`
}

// Volume describes one record and its directory.
type Volume struct {
	Name          string       `json:"name"`
	State         record.State `json:"state"`
	Bytes         int64        `json:"bytes"`
	Owner         record.Owner `json:"owner,omitzero"`
	PV            string       `json:"pv,omitempty"`
	ReclaimPolicy string       `json:"reclaimPolicy,omitempty"`
	Missing       bool         `json:"missing,omitempty"` // the directory is not there
	Adopted       bool         `json:"adopted,omitempty"`
	Ephemeral     bool         `json:"ephemeral,omitempty"`
	Created       time.Time    `json:"created"`
	// Migration describes the last replacement of the volume's PV; nil if there was none.
	Migration *Migration `json:"migration,omitempty"`
	// Orphan is what the agent last noted of a volume whose PV is gone.
	Orphan record.Orphan `json:"orphan,omitzero"`
	// Trash is the volume's name in the trash, which differs from that of others of its name.
	Trash string `json:"-"`
	// Quota and Used are bytes as the kernel has them now; 0 if it enforces no quota on the volume.
	Quota int64 `json:"quota,omitempty"`
	Used  int64 `json:"used,omitempty"`
	// Label is the SELinux label of the directory; empty if the filesystem supports none.
	Label string `json:"label,omitempty"`
}

// Migration is a record.Migration without the PVs.
type Migration struct {
	Step    record.MigrationStep `json:"step"`
	To      string               `json:"to"`
	Stopped string               `json:"stopped,omitempty"`
	Began   time.Time            `json:"began"`
	Changed time.Time            `json:"changed"`
}

// TrashEntry describes one volume in the trash. Its space is not allocated any more.
// Name and Bytes are those of its record, if that is still there.
type TrashEntry struct {
	ID    string    `json:"id"`
	Name  string    `json:"name,omitempty"`
	Bytes int64     `json:"bytes,omitempty"`
	Since time.Time `json:"since"`
	// Stuck is the reason why the agent's last purge could not remove it.
	Stuck string `json:"stuck,omitempty"`
}

// KeptEntry describes one deleted volume that is kept. Its space is not allocated any more.
type KeptEntry struct {
	ID string `json:"id"`
	// Name, Bytes, Owner, PV and Created are those of its record; only ID and Since are known without one.
	Name    string       `json:"name,omitempty"`
	Bytes   int64        `json:"bytes,omitempty"`
	Owner   record.Owner `json:"owner,omitzero"`
	PV      string       `json:"pv,omitempty"`
	PVUID   string       `json:"pvUID,omitempty"`
	Cluster string       `json:"cluster,omitempty"`
	Created time.Time    `json:"created,omitzero"`
	// Since is when it was deleted, by the clock of the node. Seconds is for how long agents have run since
	// then, and Frees how many bytes surely become free with it, as the agent noted both last.
	Since   time.Time `json:"since"`
	Seconds int64     `json:"seconds,omitempty"`
	Frees   int64     `json:"frees,omitempty"`
	// Retention is for how many seconds it is kept, if its class has one: the agent's default otherwise.
	Retention int64 `json:"retention,omitempty"`
}

// Unrecorded is a directory of the pool without a record.
type Unrecorded struct {
	Name string `json:"name"`
}

// Version is that of the JSON of a Report. It changes if a field gets another meaning or goes. A
// new field does not change it: programs that do not have the field ignore it.
const Version = 1

// Decode reads the reports that `inspect -o json` printed, one after the other. A report without a
// version is one of before versions. Decode returns the reports before an error; a report of a
// newer version is one.
func Decode(from io.Reader) (all []Report, err error) {
	for decoder := json.NewDecoder(from); ; {
		var text json.RawMessage
		switch err := decoder.Decode(&text); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("the output of inspect is no JSON: %w", err)
		}
		// The version comes first: the fields of another may have other types.
		var of struct {
			Version int `json:"version"`
		}
		err := json.Unmarshal(text, &of)
		if of.Version > Version {
			return all, fmt.Errorf("the report has version %d, and this program reads up to %d: use the kubectl-hpp of the "+
				"agent's release", of.Version, Version)
		}
		var r Report
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return all, fmt.Errorf("the report of inspect: %w", err)
		}
		all = append(all, r)
	}
}
