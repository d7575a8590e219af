package contract

import (
	"regexp"
	"slices"
	"strings"
)

// maxDirectory is NAME_MAX of Linux, in bytes.
const maxDirectory = 255

// Directory returns the name of a new volume's directory: the PV's name, or <claim>-<PV> with
// prefix. It truncates the claim's name to fit maxDirectory, never the PV's name, which makes the
// result unique. An existing volume's name is in its record; do not compute it again.
func Directory(pv, claim string, prefix bool) string {
	if !prefix {
		return pv
	}
	return truncate(claim, maxDirectory-len(pv)-1) + "-" + pv
}

func truncate(name string, most int) string { return name[:min(len(name), most)] }

var (
	provisioned = regexp.MustCompile(`^(?:.+-)?(pvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:_.+_.+)?$`)
	inline      = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)
)

// Provisioned reports whether a directory's name is one that provisioners or kubelets generate:
// pvc-<UID>, with or without the claim's name before or after it, or the handle of an ephemeral
// inline volume. pv is the name of the directory's PV, "" for an inline volume, which has no PV.
func Provisioned(directory string) (pv string, is bool) {
	if m := provisioned.FindStringSubmatch(directory); m != nil {
		return m[1], true
	}
	return "", inline.MatchString(directory)
}

// Contains reports whether an element of the path is the directory's name.
func Contains(path, directory string) bool {
	return slices.Contains(strings.Split(path, "/"), directory)
}
