package pooldir

import "testing"

func TestNewUUID(t *testing.T) {
	if a, b := newUUID(), newUUID(); a == b || len(a) != 36 {
		t.Errorf("%s, %s", a, b)
	}
}
