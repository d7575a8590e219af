package volume

import (
	"fmt"
)

// Expand grows a volume to so many bytes, its promise and its limit, also
// while pods use it, and returns it. A volume of this size stays as it is, so
// callers may retry. One without a limit grows its promise alone.
//
// The error is ErrInvalid where bytes are fewer than it has, or the volume is
// ephemeral; ErrNotFound where the volume or its directory is not there;
// ErrConflict or ErrInUse where something else is in the directory's place; a
// SpaceError, which is an ErrNoSpace, where the pool cannot promise the
// difference; ErrNoQuotas where a limit is required that is not enforced any
// more. With an error the volume is as before.
func (p *Pool) Expand(name string, bytes int64) (Volume, error) {
	var v Volume
	err := p.on("expand volume", name, func(c *call) error {
		r, ok := p.records.Get(name)
		if !ok {
			return ErrNotFound
		}
		if err := c.CheckPlain(name); err != nil {
			return err
		}
		if err := expandable(r, bytes); err != nil {
			return err
		}
		r, err := p.expand(c, r, bytes)
		if err != nil {
			return err
		}
		v = p.volume(c, r, false)
		return nil
	})
	if err != nil {
		return Volume{}, err
	}
	return v, nil
}

func expandable(r Record, bytes int64) error {
	switch {
	case r.Ephemeral:
		return fmt.Errorf("%w: it is ephemeral, and has the size that its pod asked for as long as that lives", ErrInvalid)
	case bytes < r.Bytes:
		return fmt.Errorf("%w: %d bytes asked for, and it has %d; a volume cannot shrink", ErrInvalid, bytes, r.Bytes)
	}
	return nil
}

// expand records the size before it raises the limit: where a crash comes
// between, the next start raises it, and nobody can write what was not
// promised.
func (p *Pool) expand(c *call, before Record, bytes int64) (Record, error) {
	r := before
	if bytes > before.Bytes {
		release, err := p.reserve(c, r.Name, bytes, bytes-before.Bytes)
		if err != nil {
			return before, err
		}
		defer release()
		r.Bytes = bytes
		p.step("expand.record")
		if err := p.put(c, r); err != nil {
			return before, err
		}
	}
	after, err := p.matchQuota(c, r)
	if err != nil && r != before {
		p.step("expand.restore")
		// Should this fail, the next start brings the limit to the record.
		_ = p.put(c, before)
	}
	return after, err
}
