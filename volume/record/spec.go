package record

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
	// Quota decides about a pool that enforces no quotas. In any other, the kernel
	// enforces Bytes unless this is QuotaNone.
	Quota QuotaPolicy
	// Inodes is the most that it may have, itself among them; 0 is no quota on inodes.
	Inodes uint64
	// Mode is the mode of the volume's directory; 0 is the pool's. UID and GID are
	// its owner and group; 0 is root. An adopted directory keeps what it has.
	Mode     Mode
	UID, GID uint32
}
