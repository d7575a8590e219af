package class

import (
	"regexp"
	"strings"
)

// maxDirectory is NAME_MAX: the longest name a directory can have, in bytes.
const maxDirectory = 255

// Directory returns the name of the directory of a new volume: the PV's name,
// or <claim>-<PV> where prefix is on. A claim's name that is too long for that
// is cut, never the PV's, which makes the whole unique.
//
// Once recorded, the name is read from the record and never computed again.
func Directory(pv, claim string, prefix bool) string {
	if !prefix {
		return pv
	}
	if room := maxDirectory - len(pv) - 1; len(claim) > room {
		claim = claim[:room]
	}
	return claim + "-" + pv
}

var (
	provisioned = regexp.MustCompile(`^(?:.+-)?(pvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)
	inline      = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)
)

// Provisioned reports whether a directory has a name that only provisioners and
// kubelets give: pvc-<UID>, with or without the claim's name before it, or the
// handle of a pod's own volume. pv is the PV that such a directory is of, "" for
// a pod's own, which has none.
func Provisioned(directory string) (pv string, is bool) {
	if m := provisioned.FindStringSubmatch(directory); m != nil {
		return m[1], true
	}
	return "", inline.MatchString(directory)
}

// Mentions reports whether a path leads to or through a directory of that name.
func Mentions(path, directory string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == directory {
			return true
		}
	}
	return false
}
