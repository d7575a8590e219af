package record

import (
	"fmt"
	"time"
)

// State is where a volume is in its life: creating, ready, bound, deleting.
type State string

// The states, in the order of a volume's life.
const (
	// Creating: announced, not yet in place. Nobody was told that it exists. On the
	// disk a volume in place may still be Creating: it is ready.
	Creating State = "creating"
	// Ready: in place; the caller may have been told, its PV was not seen yet.
	Ready State = "ready"
	// Bound: in place, and a PV that names it was seen.
	Bound State = "bound"
	// Deleting: going; its promise has been returned. On the disk it may still be
	// as before: a volume that is in the trash is Deleting.
	Deleting State = "deleting"
)

// Owner is the claim a volume was made for, or was given to since.
type Owner struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// String names the claim in messages.
func (o Owner) String() string {
	switch {
	case o == Owner{}:
		return "no claim"
	case o.Name == "":
		return "claim " + o.UID
	}
	return fmt.Sprintf("claim %s/%s (%s)", o.Namespace, o.Name, o.UID)
}

// Record remembers what a directory cannot say. It is what stands on disk.
type Record struct {
	Version       int    `json:"version"`
	Name          string `json:"name"`
	State         State  `json:"state"`
	Bytes         int64  `json:"bytes"`                   // as requested
	Owner         Owner  `json:"owner,omitzero"`          // the claim
	PV            string `json:"pv,omitempty"`            // the PV's name
	ReclaimPolicy string `json:"reclaimPolicy,omitempty"` // as last seen on the PV
	Cluster       string `json:"cluster,omitempty"`       // UID of the cluster
	Adopted       bool   `json:"adopted,omitempty"`       // the directory was there before us
	// Ephemeral: made for one pod, and goes when it is unpublished.
	Ephemeral bool      `json:"ephemeral,omitempty"`
	Created   time.Time `json:"created"`
	// Limit and Inodes are as asked for.
	Quota  QuotaPolicy `json:"limit,omitempty"`
	Inodes uint64      `json:"inodes,omitempty"`
	// QuotaID is the ID under which the kernel counts the volume. No other volume
	// gets it, and it stays whatever ID the directory shows, because root in the
	// volume's pod can change that. 0, as in records of older programs: no limit.
	QuotaID uint64 `json:"limitID,omitempty"`
	// Migration is the journal of a PV that is, or was, replaced by another.
	Migration *Migration `json:"migration,omitempty"`
	// Orphan is noted where the PV is gone.
	Orphan Orphan `json:"orphan,omitzero"`
	// Trash is the volume's name in the trash: random, and chosen with the record,
	// so that a directory which is there was this volume, and none before or after it
	// that had its name. Records of older programs have none until they are deleted.
	Trash string `json:"trash,omitempty"`
	// Stuck is why the last purge could not remove the volume from the trash.
	Stuck string `json:"stuck,omitempty"`
}

// Version is written into new records. A record of a later version is
// not touched: an older agent must not lose what a newer one wrote.
const Version = 1

// InPlace reports whether callers may know of the volume.
func (r Record) InPlace() bool { return r.State == Ready || r.State == Bound }

// Same reports whether two records with one name are of one volume, and not of
// one that came after the other.
func (r Record) Same(other Record) bool {
	return r.Created.Equal(other.Created) && r.Trash == other.Trash
}
