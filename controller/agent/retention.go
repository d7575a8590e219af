package agent

import (
	"errors"
	"time"
)

// retentionOptions are the flags of deleted volumes that are kept.
type retentionOptions struct {
	deleted time.Duration // 0 keeps none
	most    time.Duration // of the class parameter
	set     bool          // most was given
}

// check refuses both flags in driver-only mode.
func (r *retentionOptions) check(driverOnly bool) error {
	if driverOnly && (r.deleted > 0 || r.set) {
		return errors.New("--trash-retention and --trash-retention-max (HPP_TRASH_RETENTION, HPP_TRASH_RETENTION_MAX) " +
			"keep deleted volumes for undelete, which compares them with PVs, and the agent sees none in driver-only mode: " +
			"set --provision, or leave both out")
	}
	return nil
}
