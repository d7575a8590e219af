package volume

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// checkLimit returns ErrInvalid for limits that make no sense.
func (s Spec) checkLimit() error {
	switch s.Quota {
	case QuotaBestEffort, QuotaRequired, QuotaNone:
	default:
		return fmt.Errorf("%w: the limit policy %q is not known; there are required, best-effort (empty) and none", ErrInvalid, string(s.Quota))
	}
	if s.Quota == QuotaNone && s.Inodes > 0 {
		return fmt.Errorf("%w: a limit of %d inodes is asked for, and no limit", ErrInvalid, s.Inodes)
	}
	return nil
}

// Limits says how the filesystem of the pool enforces limits: as it was when
// the pool was opened last, and none before.
func (p *Pool) Quotas() quota.Support {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.support
}

// enforcement is how the filesystem of an open pool enforces limits.
type enforcement struct {
	limits  quota.Enforcer
	support quota.Support // what of limits this process can use
	block   int64         // of the filesystem, in bytes: what limits are rounded up to
	notes   []string      // what was found before recovery
}

// probe finds what enforces limits, after turning it on where it may.
func (p *Pool) probe(h *handle) error {
	st, err := h.Statfs()
	if err != nil {
		return err
	}
	h.block = st.Bsize
	if p.config.EnableBtrfsQuota && uint32(st.Type) == unix.BTRFS_SUPER_MAGIC {
		p.step("open.quota")
		if err := quota.Enable(h.Base); err != nil {
			h.notes = append(h.notes, fmt.Sprintf("limits cannot be turned on: %v", err))
		}
	}
	hooks := quota.Hooks{Step: p.steps("limit"), Taken: func(id uint64) bool {
		return p.filesystems.Load().Recorded(p.ledger, h.Filesystem, id) > 0
	}}
	if h.limits, err = quota.Probe(h.Base, hooks); err != nil {
		return err
	}
	h.support = h.limits.Support()
	if h.support.Method != quota.MethodNone && !administers() {
		h.support = quota.Support{Method: quota.MethodNone,
			Reason: "the process lacks the capability SYS_ADMIN, without which the kernel sets no limit; give it to the container"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.support = h.support
	return nil
}

// administers reports whether the process may set limits: quotactl(2), and
// the calls for a btrfs' quota, want CAP_SYS_ADMIN.
func administers() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&head, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// CheckQuota returns ErrNoQuotas where Create would, with the filesystem as it
// was when the pool was opened last.
func (p *Pool) CheckQuota(s Spec) error { return checkSupport(p.Quotas(), s) }

// checkSupport returns ErrNoQuotas where the policy insists on what the
// filesystem cannot do.
func checkSupport(support quota.Support, s Spec) error {
	switch {
	case s.Quota != QuotaRequired:
	case support.Method == quota.MethodNone:
		return fmt.Errorf("%w: %s", ErrNoQuotas, support.Reason)
	case s.Inodes > 0 && !support.Inodes:
		return fmt.Errorf("%w: %d inodes are asked for, and %s does not count them", ErrNoQuotas, s.Inodes, support.Method)
	}
	return nil
}

// wanted returns the limit of a volume as far as the filesystem enforces it.
// ok is false where it gets none.
func (h *handle) wanted(r Record) (want quota.Limit, ok bool) {
	support := h.support
	want.Bytes = r.Bytes
	if support.Inodes {
		want.Inodes = r.Inodes
	}
	unlimited := r.Quota == QuotaNone || r.Adopted && r.QuotaID == 0
	return want, !unlimited && support.Method != quota.MethodNone
}

// enforce puts the limit of a volume in force and returns its ID, 0 where it
// gets none. Quota may have been turned off since the pool was opened.
func (h *handle) enforce(dir int, r Record) (uint64, error) {
	want, ok := h.wanted(r)
	if !ok {
		return 0, nil
	}
	id, err := h.limits.Set(dir, r.QuotaID, want)
	if errors.Is(err, quota.ErrNone) {
		if r.Quota == QuotaRequired {
			return 0, fmt.Errorf("%w: %w", ErrNoQuotas, err)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("set the limit: %w", err)
	}
	return id, nil
}

// makeStaged makes the directory of a new volume, of the kind that its limit
// needs.
func (h *handle) makeStaged(r Record) error {
	if _, ok := h.wanted(r); ok {
		return h.limits.Make(h.Staging, r.Name)
	}
	return unix.Mkdirat(h.Staging, r.Name, 0o700)
}

// makesSubvolume reports whether makeStaged makes a btrfs subvolume. A rename of one makes
// the next flush commit the filesystem whole (btrfs_rename in fs/btrfs/inode.c), with all
// that was made before it.
func (h *handle) makesSubvolume(r Record) bool {
	_, ok := h.wanted(r)
	return ok && h.support.Method == quota.MethodBtrfs
}

// limited reports whether the kernel holds the volume to its bytes.
func (p *Pool) limited(h *handle, r Record) bool {
	return r.QuotaID != 0 && h.support.Method != quota.MethodNone && p.stray(r.Name) == ""
}

// unlimited describes the part of a volume's limit that is not enforced.
func (p *Pool) unlimited(h *handle, r Record) string {
	support, stray := h.support, p.stray(r.Name)
	switch {
	case stray != "":
		return stray
	case r.Adopted && r.QuotaID == 0:
		return "its directory was there before, and its data is not counted"
	case r.Quota == QuotaNone:
		return "no limit is asked for"
	case support.Method == quota.MethodNone:
		return support.Reason
	case r.QuotaID == 0:
		return "it has none: it was made when the filesystem enforced no limits, or lost it since"
	case r.Inodes > 0 && !support.Inodes:
		return fmt.Sprintf("%s does not count inodes; the limit is on bytes alone", support.Method)
	}
	return ""
}

// RemoveWhole removes a trash entry in one step, where the filesystem can: its
// kernel then frees the space by itself.
func (h *handle) RemoveWhole(id string) (removed bool, err error) {
	if h.support.Method == quota.MethodNone {
		return false, nil
	}
	return h.limits.Remove(h.Trash, id)
}

// ClearQuotas removes quotas that belong to no directory any more.
func (h *handle) ClearQuotas() error {
	if h.support.Method == quota.MethodNone {
		return nil
	}
	_, err := h.limits.Sweep(h.Base)
	return err
}
