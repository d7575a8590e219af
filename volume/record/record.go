package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	Former        string `json:"former,omitempty"`        // UIDs of earlier owners, see Had
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
	// Claim is what else PV and claim had; nil if that is unknown.
	Claim *Claim `json:"claim,omitempty"`
	// Orphan is the note on a volume whose PV is gone.
	Orphan Orphan `json:"orphan,omitzero"`
	// Trash is the volume's name in the trash, random and chosen with the record: a
	// directory of that name in the trash was this volume, and no earlier or later one
	// with the same name. Records of older programs have none until they are deleted.
	Trash string `json:"trash,omitempty"`
	// Source is the volume of which this one was made as a copy; nil for one that began empty. While
	// the state is Creating, the copy may be incomplete. A Source is never changed.
	Source *Source `json:"source,omitempty"`
	// LeftOut is what the copy lacks, until its claim has the event about that.
	LeftOut string `json:"leftOut,omitempty"`
	// TrashRetention is for how many seconds the volume is kept once it is deleted, as its class
	// asked at Create. 0 is the pool's default, and less than 0 is not at all.
	TrashRetention int64 `json:"trashRetention,omitempty"`
	// Returning is the name in the trash, or among the kept volumes, from which the directory is being
	// brought back.
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

// Unused reports whether the volume is of no use to anyone once its deletion began: it is an inline
// volume, whose pod is gone, or a copy that no PV ever named. The first Bind of a copy is flushed.
func (r Record) Unused() bool { return r.Ephemeral || r.Source != nil && r.State != Bound }

// NamesPV reports whether the volume is that of a PV of this name. If a sidecar did not pass the name
// on, it is the volume's name, because the sidecar gives both the same name.
func (r Record) NamesPV(name string) bool { return !r.Ephemeral && cmp.Or(r.PV, r.Name) == name }

// formerOwners is how many earlier owners a record keeps.
const formerOwners = 8

// Given returns the record of a volume that another claim gets.
func (r Record) Given(to Owner) Record {
	if r.Owner.UID != "" && r.Owner.UID != to.UID {
		all := append(strings.Fields(r.Former), r.Owner.UID)
		r.Former = strings.Join(all[max(0, len(all)-formerOwners):], " ")
		r.Claim, r.LeftOut = nil, "" // of the former
	}
	r.Owner = to
	return r
}

// Had reports whether the volume was that of the claim with that UID, before its owner's. UIDs never
// return: a PV that names such a claim is older than the record, as after etcd was restored.
func (r Record) Had(claim string) bool {
	return claim != "" && claim != r.Owner.UID && slices.Contains(strings.Fields(r.Former), claim)
}

// Same reports whether two records with one name are of one volume, and not of a later one.
func (r Record) Same(other Record) bool {
	return r.Created.Equal(other.Created) && r.Trash == other.Trash
}

// SameVolume reports whether two records are of one volume, which has a new name in the trash since it
// was brought back. A volume has no other time of creation than the kept volumes of its name.
func (r Record) SameVolume(other Record) bool {
	return r.Name == other.Name && r.Created.Equal(other.Created)
}

// Spec describes a volume that Create creates or Adopt records.
type Spec struct {
	Name    string // [A-Za-z0-9._-], 1 to 255 bytes, no leading dot
	Bytes   int64  // the allocation; more than zero, or zero if it is adopted
	Owner   Owner
	PV      string // the PV that will name, or names, the volume
	Cluster string
	// ReclaimPolicy of the PV, as far as it is known.
	ReclaimPolicy string
	// Ephemeral volumes are deleted with their pod; no PV ever names them.
	Ephemeral bool
	// Source is the volume that is copied; nil for a volume that begins empty.
	Source *Source
	// Quota decides about a pool that enforces no quotas. In any other, the kernel
	// enforces Bytes unless this is QuotaNone.
	Quota QuotaPolicy
	// Inodes is the most that it may have, itself among them; 0 is no quota on inodes.
	Inodes uint64
	// TrashRetention is for how many seconds the deleted volume is kept, at most as long as the pool's
	// Config permits; 0 is the pool's default, and less than 0 is not at all.
	TrashRetention int64
	// Mode is the mode of the volume's directory; 0 is the pool's. UID and GID are
	// its owner and group; 0 is root. An adopted directory keeps what it has.
	Mode     Mode
	UID, GID uint32
}

// Orphan is what was last noted of a volume whose PV is gone. The zero value
// is a volume that is none.
type Orphan struct {
	// Since is when Why was first noted, to the second.
	Since time.Time `json:"since"`
	// Why describes what is gone, and what still exists.
	Why string `json:"why"`
	// WatchedSeconds is how long agents have run since then, in all, by a clock
	// that no user can set. It lags behind by some minutes.
	WatchedSeconds int64 `json:"watchedSeconds,omitempty"`
	// Unseen: the PV was not seen between the last opening of the pool and Since, so that
	// the recorded reclaim policy may not be its last one.
	Unseen bool `json:"unseen,omitempty"`
}

// Watched is WatchedSeconds as a duration.
func (o Orphan) Watched() time.Duration { return time.Duration(o.WatchedSeconds) * time.Second }

// QuotaPolicy is for pools that enforce no quotas, or none on inodes if one is requested.
type QuotaPolicy string

// The policies.
const (
	// QuotaBestEffort: Create creates the volume with the quotas that can be enforced.
	QuotaBestEffort QuotaPolicy = ""
	// QuotaRequired: Create returns ErrNoQuotas.
	QuotaRequired QuotaPolicy = "required"
	// QuotaNone: no quota is set, in any pool.
	QuotaNone QuotaPolicy = "none"
)

// String is the policy's name in messages.
func (l QuotaPolicy) String() string { return cmp.Or(string(l), "best-effort") }
