package torture

import (
	"errors"
	"testing"
)

// A full pool refuses to bring a volume back, and the tenant goes on; one that has the space may not.
func TestNoRoom(t *testing.T) {
	const said = `["trash" "undelete" "O72V"]: exit status 1: hostpath-provisioner: trash: bring back deleted volume "pvc-1": `
	for words, want := range map[string]bool{
		"not enough space: wanted 22242196 bytes, 6530059 of 335544320 available": true,
		"not enough space: wanted 1000 bytes, 6530059 of 335544320 available":     false,
		"not ready: no answer": false,
	} {
		if got := noRoom(errors.New(said + words)); got != want {
			t.Errorf("%s: %t", words, got)
		}
	}
	if noRoom(nil) {
		t.Error("a volume that came back has no room")
	}
}
