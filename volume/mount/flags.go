package mount

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Flags are the properties of one bind mount. The zero value changes none of those that it inherits
// from its source.
type Flags struct {
	set, clear uint64
	// options must be in mountinfo afterwards, and never must not.
	options, never []string
}

// flag is the effect of an option: bits of mount_setattr(2), and the option that mountinfo then
// shows or does not show any more.
type flag struct {
	set, clear uint64
	show, hide string
}

// flagOf has the options of mount(8) that are properties of a mount. All others belong to the
// filesystem, which a bind mount does not change. The table is our own because libraries map
// options to flags of mount(2), which ignores them for a new bind mount.
func flagOf(option string) (flag, bool) {
	// MOUNT_ATTR__ATIME is one field of several bits, set as a whole.
	const atime = unix.MOUNT_ATTR__ATIME
	f, ok := map[string]flag{
		"defaults":    {},
		"bind":        {},
		"ro":          {set: unix.MOUNT_ATTR_RDONLY, show: "ro"},
		"rw":          {clear: unix.MOUNT_ATTR_RDONLY, hide: "ro"},
		"nosuid":      {set: unix.MOUNT_ATTR_NOSUID, show: "nosuid"},
		"suid":        {clear: unix.MOUNT_ATTR_NOSUID, hide: "nosuid"},
		"nodev":       {set: unix.MOUNT_ATTR_NODEV, show: "nodev"},
		"dev":         {clear: unix.MOUNT_ATTR_NODEV, hide: "nodev"},
		"noexec":      {set: unix.MOUNT_ATTR_NOEXEC, show: "noexec"},
		"exec":        {clear: unix.MOUNT_ATTR_NOEXEC, hide: "noexec"},
		"nosymfollow": {set: unix.MOUNT_ATTR_NOSYMFOLLOW, show: "nosymfollow"},
		"symfollow":   {clear: unix.MOUNT_ATTR_NOSYMFOLLOW, hide: "nosymfollow"},
		"nodiratime":  {set: unix.MOUNT_ATTR_NODIRATIME, show: "nodiratime"},
		"diratime":    {clear: unix.MOUNT_ATTR_NODIRATIME, hide: "nodiratime"},
		"noatime":     {set: unix.MOUNT_ATTR_NOATIME, clear: atime, show: "noatime"},
		"relatime":    {set: unix.MOUNT_ATTR_RELATIME, clear: atime, show: "relatime"},
		"strictatime": {set: unix.MOUNT_ATTR_STRICTATIME, clear: atime, hide: "noatime"},
	}[option]
	return f, ok
}

// ParseFlags parses mount options, each of which may be a list with commas. Of two that contradict
// each other the later wins, and readonly wins over all. The error names an unknown option.
func ParseFlags(options []string, readonly bool) (Flags, error) {
	var f Flags
	for _, option := range options {
		for name := range strings.SplitSeq(option, ",") {
			one, ok := flagOf(name)
			if !ok {
				return Flags{}, fmt.Errorf("mount option %q is not supported; a bind mount has ro, nosuid, nodev, noexec, "+
					"nosymfollow, noatime, nodiratime, relatime, strictatime and their opposites", name)
			}
			f.add(one)
		}
	}
	if ro, _ := flagOf("ro"); readonly {
		f.add(ro)
	}
	return f, nil
}

func (f *Flags) add(one flag) {
	f.set, f.clear = f.set&^one.clear|one.set, f.clear&^one.set|one.clear
	drop := func(list []string, name string) []string {
		return slices.DeleteFunc(list, func(s string) bool { return s == name })
	}
	if one.clear&unix.MOUNT_ATTR__ATIME == unix.MOUNT_ATTR__ATIME {
		f.options = drop(drop(f.options, "noatime"), "relatime")
		f.never = drop(f.never, "noatime")
	}
	if one.show != "" {
		f.options, f.never = append(drop(f.options, one.show), one.show), drop(f.never, one.show)
	}
	if one.hide != "" {
		f.options, f.never = drop(f.options, one.hide), append(drop(f.never, one.hide), one.hide)
	}
}

// Readonly reports whether the flags make the mount readonly.
func (f Flags) Readonly() bool { return f.set&unix.MOUNT_ATTR_RDONLY != 0 }

// Differ describes the option that the mount lacks or must not have, or returns "" if the mount has
// these flags. Readonly and writable mounts always differ; the mount may have other options that
// were not requested.
func (f Flags) Differ(i Info) string {
	has := strings.Split(i.Options, ",")
	if slices.Contains(has, "ro") != f.Readonly() {
		if f.Readonly() {
			return "it is mounted for writing"
		}
		return "it is mounted readonly"
	}
	for _, option := range f.options {
		if !slices.Contains(has, option) {
			return "it is mounted without " + option
		}
	}
	for _, option := range f.never {
		if slices.Contains(has, option) {
			return "it is mounted with " + option
		}
	}
	return ""
}
