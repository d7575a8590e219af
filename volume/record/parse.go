package record

import (
	"encoding/json"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Suffix ends the names of the records in the trash.
const Suffix = ".json"

// Parse understands the record of a volume of that name. The error is ErrDamaged.
func Parse(name string, data []byte) (Record, error) {
	var r Record
	if err := fault.CheckName(name); err != nil {
		return r, fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	switch {
	case r.Version > Version:
		return r, fmt.Errorf("%w: it is of version %d, this program knows up to %d", fault.ErrDamaged, r.Version, Version)
	case r.Name != name:
		return r, fmt.Errorf("%w: it is of volume %q", fault.ErrDamaged, r.Name)
	case r.Bytes < 0, r.Bytes == 0 && !r.Adopted:
		return r, fmt.Errorf("%w: its size is %d bytes", fault.ErrDamaged, r.Bytes)
	case r.Trash == "" && r.State != Deleting: // of an older program
	case fault.CheckName(r.Trash) != nil, strings.HasSuffix(r.Trash, Suffix):
		return r, fmt.Errorf("%w: its name in the trash is %q, which is none", fault.ErrDamaged, r.Trash)
	case r.Returning != "" && (fault.CheckName(r.Returning) != nil || strings.HasSuffix(r.Returning, Suffix)):
		return r, fmt.Errorf("%w: it returns from %q, which is no name in the trash", fault.ErrDamaged, r.Returning)
	}
	switch r.State {
	case Creating, Ready, Bound, Deleting:
		return r, nil
	}
	return r, fmt.Errorf("%w: its state is %q", fault.ErrDamaged, r.State)
}
