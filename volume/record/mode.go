package record

import (
	"fmt"
	"strconv"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Mode is the mode of a volume's directory, in the bits of chmod(2). Permissions,
// setgid (2000) and sticky (1000) are allowed. The zero value is no mode.
type Mode uint32

const maxMode = 0o3777

// ParseMode parses an octal number such as 0770. The error is an ErrInvalid that names the text.
func ParseMode(text string) (Mode, error) {
	bits, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no octal mode such as 0770", fault.ErrInvalid, text)
	}
	m := Mode(bits)
	if err := m.Check(); err != nil {
		return 0, err
	}
	if m == 0 {
		return 0, fmt.Errorf("%w: mode %s permits nothing", fault.ErrInvalid, text)
	}
	return m, nil
}

// Check returns an ErrInvalid if the mode has bits that a volume cannot have, such as setuid.
func (m Mode) Check() error {
	if m&^maxMode != 0 {
		return fmt.Errorf("%w: mode %v has other bits than permissions, setgid (2000) and sticky (1000)", fault.ErrInvalid, m)
	}
	return nil
}

// String returns the mode in octal, as chmod(1) takes it.
func (m Mode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// MarshalText writes the mode in octal, because a decimal number would not be
// understood by a reader of the record.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText does what ParseMode does.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMode(string(text))
	return err
}
