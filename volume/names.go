package volume

// The pool's private directory and what is in it; see the package comment.
const (
	privateName  = ".hostpath-provisioner"
	identityName = "pool.json"
	lockName     = "lock"
	recordsName  = "records"
	stagingName  = "staging"
	trashName    = "trash"
)
