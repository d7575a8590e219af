package record

import (
	"fmt"
	"time"
)

// State is where a volume is in its life: creating, ready, bound, deleting.
type State string

// The states, in the order of a volume's life.
const (
	// Creating: announced, not yet in place; no caller has seen it. On the disk a volume
	// in place may still be Creating: it is ready.
	Creating State = "creating"
	// Ready: in place; the caller of Create may have it, and the agent has seen no PV.
	Ready State = "ready"
	// Bound: in place, and the agent has seen a PV that names it.
	Bound State = "bound"
	// Deleting: its deletion began, and its space is not allocated any more. On the disk
	// the state may be the one before: a volume that is in the trash is Deleting.
	Deleting State = "deleting"
)

// Owner is the claim for which a volume was created, or to which it was transferred.
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

// Record describes a volume. It is a JSON file on the disk; the keys never change.
type Record struct {
	Version       int    `json:"version"`
	Name          string `json:"name"`
	State         State  `json:"state"`
	Bytes         int64  `json:"bytes"`                   // as requested
	Owner         Owner  `json:"owner,omitzero"`          // the claim
	PV            string `json:"pv,omitempty"`            // the PV's name
	PVUID         string `json:"pvUID,omitempty"`         // of the PV that may delete the volume; "" of older versions
	ReclaimPolicy string `json:"reclaimPolicy,omitempty"` // as last seen on the PV
	Cluster       string `json:"cluster,omitempty"`       // UID of the cluster
	Adopted       bool   `json:"adopted,omitempty"`       // the directory was there before us
	// Ephemeral: created for one pod, and deleted when it is unpublished.
	Ephemeral bool      `json:"ephemeral,omitempty"`
	Created   time.Time `json:"created"`
	// Quota and Inodes are as requested.
	Quota  QuotaPolicy `json:"limit,omitempty"`
	Inodes uint64      `json:"inodes,omitempty"`
	// Mode, UID and GID are what the directory was created with, as asked for: no
	// mode is the pool's, and no owner is root. Its users may have changed them.
	Mode Mode   `json:"mode,omitzero"`
	UID  uint32 `json:"uid,omitempty"`
	GID  uint32 `json:"gid,omitempty"`
	// QuotaID is the ID under which the kernel counts the volume. No other volume
	// gets it, and it stays whatever ID the directory shows, because root in the
	// volume's pod can change that. 0, as in records of older programs: no quota.
	QuotaID uint64 `json:"limitID,omitempty"`
	// Migration is the journal of a PV that is, or was, replaced by another.
	Migration *Migration `json:"migration,omitempty"`
	// Orphan is the note on a volume whose PV is gone.
	Orphan Orphan `json:"orphan,omitzero"`
	// Trash is the volume's name in the trash, random and chosen with the record: a
	// directory of that name in the trash was this volume, and no earlier or later one
	// with the same name. Records of older programs have none until they are deleted.
	Trash string `json:"trash,omitempty"`
	// Returning is the name in the trash from which the directory is being brought back, after
	// a deletion that was not finished.
	Returning string `json:"returning,omitempty"`
	// Aside is set in memory while the directory is in the trash, or on its way there, and no
	// caller knows: only a caller that still wants the deletion finishes it.
	Aside bool `json:"-"`
	// Flushed is set in memory once the disk has the directory in the trash.
	Flushed bool `json:"-"`
	// Stuck is the reason why the last purge could not remove the volume from the trash.
	Stuck string `json:"stuck,omitempty"`
}

// Version is the version of new records. The agent does not change a record of a later
// version: an older agent must not lose what a newer one wrote.
const Version = 1

// InPlace reports whether the volume is complete and not being deleted.
func (r Record) InPlace() bool { return !r.InTrash() && (r.State == Ready || r.State == Bound) }

// InTrash reports whether the directory is in the trash, and may come back.
func (r Record) InTrash() bool { return r.Aside || r.Returning != "" }

// Same reports whether two records with one name are of the same volume, and not of a later
// one of that name.
func (r Record) Same(other Record) bool {
	return r.Created.Equal(other.Created) && r.Trash == other.Trash
}
