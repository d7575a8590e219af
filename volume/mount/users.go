package mount

import "fmt"

// ByID finds the mount with the ID, as statx(2) reports it (STATX_MNT_ID) and
// /proc/pid/fdinfo shows it.
func ByID(all []Info, id int) (Info, bool) {
	for _, info := range all {
		if info.ID == id {
			return info, true
		}
	}
	return Info{}, false
}

// Users returns the points of the mounts that use the directory dir or
// anything below it: mounted on it or in it, seen through whichever mount of
// its filesystem, or bind mounts of it. id is the mount that dir itself is
// reached through, dir a path as this process sees it.
//
// A bind mount of a directory that was removed uses nothing any more.
func Users(all []Info, id int, dir string) ([]string, error) {
	home, ok := ByID(all, id)
	if !ok {
		return nil, fmt.Errorf("mountinfo has no mount %d, through which %s is reached", id, dir)
	}
	root, ok := home.locate(dir)
	if !ok {
		return nil, fmt.Errorf("mount %d is at %s, and %s is not below it", id, home.Point, dir)
	}
	byID := make(map[int]Info, len(all))
	for _, info := range all {
		byID[info.ID] = info
	}
	var points []string
	for _, info := range all {
		if info.shows(home, root) || info.covers(byID, home, root) {
			points = append(points, info.Point)
		}
	}
	return points, nil
}

// Shows reports whether what is mounted is the directory dir or something
// below it. dir is a path that this process reaches through the mount home. A
// directory that was removed is shown no more.
func (i Info) Shows(home Info, dir string) bool {
	root, ok := home.locate(dir)
	return ok && i.shows(home, root)
}

// shows reports whether the mount is one of root, or of something below it.
func (i Info) shows(home Info, root string) bool {
	_, below := within(i.Root, root)
	return below && !i.Removed && i.sameFilesystem(home)
}

// covers reports whether the mount hides root or something below it. The same
// directory may be reached in several ways, so what counts is where the mount
// point lies in the filesystem, not its path.
func (i Info) covers(byID map[int]Info, home Info, root string) bool {
	parent, ok := byID[i.Parent]
	if !ok || parent.Removed || !parent.sameFilesystem(home) {
		return false
	}
	at, ok := parent.locate(i.Point)
	if !ok {
		return false
	}
	_, below := within(at, root)
	return below
}

func (i Info) sameFilesystem(o Info) bool { return i.Major == o.Major && i.Minor == o.Minor }
