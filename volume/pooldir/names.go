package pooldir

// The pool's private directory and what is in it; see the comment of package volume.
const (
	PrivateName  = ".hostpath-provisioner"
	identityName = "pool.json"
	lockName     = "lock"
	pathsName    = "paths.json"
	RecordsName  = "records"
	StagingName  = "staging"
	TrashName    = "trash"
)
