package contract

import "strings"

// HeldPool is the pool whose volumes are on the PV of a claim.
type HeldPool struct {
	Node, Pool string
	// Path is the directory of the pool on the node.
	Path string
}

// String returns the value of AnnHeldPool.
func (h HeldPool) String() string { return h.Node + " " + h.Pool + " " + h.Path }

// ParseHeldPool reads a value of AnnHeldPool. It returns false if the value is none.
func ParseHeldPool(text string) (h HeldPool, ok bool) {
	fields := strings.SplitN(text, " ", 3) // only the path may have spaces
	if len(fields) != 3 || fields[0] == "" || fields[1] == "" || !strings.HasPrefix(fields[2], "/") {
		return HeldPool{}, false
	}
	return HeldPool{fields[0], fields[1], fields[2]}, true
}
