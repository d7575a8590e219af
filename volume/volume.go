package volume

// Spec is what a caller asks for.
type Spec struct {
	Name    string // [A-Za-z0-9._-], 1 to 255 bytes, no leading dot
	Bytes   int64  // the promise; more than zero, or zero where it is adopted
	Owner   Owner
	PV      string // the PV that will name, or names, the volume
	Cluster string
	// ReclaimPolicy of the PV, as far as it is known.
	ReclaimPolicy string
	// Ephemeral volumes live and die with a pod; no PV ever names them.
	Ephemeral bool
	// Limit says what becomes of the volume where limits are not enforced.
	// Where they are, it is held to Bytes unless this is QuotaNone.
	Quota QuotaPolicy
	// Inodes is the most that it may have, itself among them; 0 is no limit.
	Inodes uint64
}

// Volume is a volume as callers see it: its record and its place.
type Volume struct {
	Record
	// Path is <pool path>/<name>.
	Path string
	// Missing is true when the record is there and the directory is not.
	Missing bool
	// Limited is true where the kernel holds the volume to its bytes.
	QuotaEnforced bool
	// Unlimited says in words what of its limit is not enforced, and why; it
	// is empty where all is.
	NotEnforced string
}

// Binding is what a PV of this node says about its volume.
type Binding struct {
	PV            string
	ReclaimPolicy string
	Owner         Owner
	Cluster       string
}
