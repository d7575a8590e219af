package contract

import "testing"

func TestHeldPool(t *testing.T) {
	for text, want := range map[string]bool{
		"node-01 local /var/hpvolumes": true, "n p /with a space": true,
		"": false, "n p": false, "n p relative": false, " p /x": false, "n  /x": false,
	} {
		h, ok := ParseHeldPool(text)
		if ok != want || ok && h.String() != text {
			t.Errorf("%q: %+v, %v", text, h, ok)
		}
	}
}
