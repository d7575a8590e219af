// Package identity answers whose an object is. A name, a path, a label or a cache never proves that
// something is the object that is meant: a node is made again under its name, a disk comes back
// under another one's path, a claim is restored without its volume.
//
// Each question of the package is one function, asked by everything that deletes, adopts, gives up
// or protects, and has three answers. What destroys needs Ours. What protects takes Unclear for
// Ours. Unclear is reported once, with the marks that differ and what an administrator can do.
package identity

// Answer is whose an object is.
type Answer int

const (
	// Unclear is the answer where the marks do not agree, or cannot be read.
	Unclear Answer = iota
	// Ours is the answer where the object is proven to be the one that is meant.
	Ours
	// Foreign is the answer if no mark shows that it is.
	Foreign
)

func (a Answer) String() string {
	switch a {
	case Ours:
		return "ours"
	case Foreign:
		return "foreign"
	}
	return "unclear"
}

// Finding is an answer with its reason.
type Finding struct {
	Answer Answer
	// Why names the marks that differ, and what an administrator can do; "" for Ours.
	Why string
}
