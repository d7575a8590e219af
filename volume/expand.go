package volume

import (
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// Expand grows a volume to so many bytes, its allocation and its quota, also while pods use
// it. It does nothing for a volume of this size, so callers may retry. Of a volume without
// a quota it grows the allocation alone.
//
// The error is one of these, and then the volume is as before:
//
//   - ErrInvalid: bytes are fewer than it has, or the volume is ephemeral.
//   - ErrNotFound: the volume or its directory is not there.
//   - ErrConflict, ErrInUse: something else is in the directory's place.
//   - fault.SpaceError, which is an ErrNoSpace: the new bytes are not available.
//   - ErrNoQuotas: a quota is required, and the filesystem enforces none any more.
func (p *Pool) Expand(name string, bytes int64) (Volume, error) {
	return resultOf(p.withVolume, "expand volume", name, func(c *call) (Volume, error) {
		r, ok := p.records.Get(name)
		if !ok {
			return Volume{}, ErrNotFound
		}
		if err := c.CheckPlain(name); err != nil {
			return Volume{}, err
		}
		switch {
		case r.Ephemeral:
			return Volume{}, fmt.Errorf("%w: it is ephemeral, and keeps the size that its pod requested", ErrInvalid)
		case bytes < r.Bytes:
			return Volume{}, fmt.Errorf("%w: %d bytes requested, and it has %d; a volume cannot shrink", ErrInvalid, bytes,
				r.Bytes)
		}
		r, err := p.expand(c, r, bytes)
		return p.volume(c, r, false), err
	})
}

// expand records the size before it raises the quota: after a crash between the two the
// next start raises it, and tenants never write more than is allocated.
func (p *Pool) expand(c *call, before record.Record, bytes int64) (record.Record, error) {
	r := before
	if bytes > before.Bytes {
		release, err := p.allocate(c, space.Request{Name: r.Name, Bytes: bytes, Wanted: bytes - before.Bytes}, "")
		if err != nil {
			return before, err
		}
		defer release()
		r.Bytes = bytes
		if err := p.putFirst(c, "expand.record", r); err != nil {
			return before, err
		}
	}
	after, err := p.matchQuota(c, r)
	if err != nil && r != before {
		p.step("expand.restore")
		// If this fails, the next start sets the quota that the record has.
		_ = p.put(c, before)
	}
	return after, err
}
