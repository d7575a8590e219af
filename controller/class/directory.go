package class

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
