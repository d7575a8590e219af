package mount

import (
	"fmt"
	"os"
	"strconv"
)

// ByID returns the mount with an ID of statx(2) (STATX_MNT_ID) or /proc/pid/fdinfo.
func ByID(all []Info, id int) (Info, bool) {
	for _, info := range all {
		if info.ID == id {
			return info, true
		}
	}
	return Info{}, false
}

// Find returns the mount of this process with an ID of statx(2) or /proc/pid/fdinfo. It is much cheaper
// than Self on a node with hundreds of mounts, and each check of a pool needs it.
func Find(id int) (info Info, ok bool, err error) {
	f, err := os.Open(self)
	if err != nil {
		return Info{}, false, err
	}
	defer f.Close()
	all, err := parse(f, strconv.Itoa(id)+" ")
	info, ok = ByID(all, id)
	return info, ok, err
}

// Users returns the points of the mounts that use the directory dir or anything below it: mounts on
// it or in it, through any mount of its filesystem, and bind mounts of it. dir is a path as this
// process sees it, and id its mount.
//
// A bind mount of a removed directory does not count.
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

// Shows reports whether the mounted directory is dir or below it. dir is a path of this process on
// the mount home. A removed directory is not shown.
func (i Info) Shows(home Info, dir string) bool {
	root, ok := home.locate(dir)
	return ok && i.shows(home, root)
}

// shows reports whether the mounted directory is root or below it.
func (i Info) shows(home Info, root string) bool {
	_, below := within(i.Root, root)
	return below && !i.Removed && i.sameFilesystem(home)
}

// covers reports whether the mount hides root or something below it. A directory may have several
// paths, so covers compares the mount point's path within the filesystem.
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

// OnFilesystemOf reports whether the mount is of the filesystem that path is on, by the list of
// mounts alone: it works if the disk does not answer. It follows no links in path.
func (i Info) OnFilesystemOf(all []Info, path string) bool {
	var home Info
	for _, info := range all {
		if _, ok := within(path, info.Point); ok && len(info.Point) >= len(home.Point) {
			home = info
		}
	}
	return home.Point != "" && i.sameFilesystem(home)
}

func (i Info) sameFilesystem(o Info) bool { return i.Major == o.Major && i.Minor == o.Minor }
