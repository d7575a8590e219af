package disk

import (
	"bytes"
	"testing"
)

// TestUnmark has marks at every place of what is read: only whole ones that begin at a multiple of
// their size are zeros.
func TestUnmark(t *testing.T) {
	mark := make([]byte, markBytes)
	fillMark(mark, []byte("0123456789abcdef"))
	if !isMark(mark) {
		t.Fatal("a mark is none")
	}
	changed := func(at int) []byte {
		other := bytes.Clone(mark)
		other[at] ^= 1
		return other
	}
	for name, row := range map[string]struct {
		block    []byte
		from, at int64
		want     bool // it is cleared
	}{
		"at the begin":              {mark, 0, 0, true},
		"in the middle":             {mark, 1 << 20, 8192, true},
		"read from between two":     {mark, 512, markBytes - 512, true},
		"read from a little before": {mark, markBytes - 512, 512, true},
		"at no multiple":            {mark, 0, 512, false},
		"another magic":             {changed(0), 0, 0, false},
		"another number":            {changed(len(markMagic)), 0, 0, false},
		"another checksum":          {changed(len(markMagic) + nonceBytes), 0, 0, false},
		"something behind it":       {changed(markBytes - 1), 0, 0, false},
	} {
		data := make([]byte, 4*markBytes)
		copy(data[row.at:], row.block)
		unmark(data, row.from)
		if cleared := notZero(data) < 0; cleared != row.want {
			t.Errorf("%s: cleared %v, want %v", name, cleared, row.want)
		}
	}
	cut := make([]byte, markBytes+100)
	copy(cut[markBytes:], mark)
	if unmark(cut, 0); notZero(cut) < 0 {
		t.Error("a part of a mark is cleared")
	}
}
