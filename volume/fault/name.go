package fault

import "fmt"

// maxName is NAME_MAX of every filesystem we serve.
const maxName = 255

// CheckName reports whether name can be a volume: [A-Za-z0-9._-], 1 to 255
// bytes, no leading dot. The error is an ErrInvalid with the reason.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("%w: the name has %d bytes, at most %d fit", ErrInvalid, len(name), maxName)
	case name[0] == '.':
		return fmt.Errorf("%w: the name %q begins with a dot", ErrInvalid, name)
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%w: the name %q has %q at byte %d; letters, digits, '.', '_' and '-' are allowed",
				ErrInvalid, name, c, i)
		}
	}
	return nil
}
