// Package mount reads mountinfo, and bind-mounts directories at targets. It uses descriptors, and
// verifies its mounts in mountinfo.
package mount

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Info is one line of /proc/self/mountinfo; see proc_pid_mountinfo(5). The parser is our own:
// volume needs golang.org/x/sys alone, and the common libraries do not separate Removed from Root.
type Info struct {
	ID, Parent int
	// Major and Minor name the filesystem. On btrfs they differ from the
	// st_dev of its files, so compare them only with other Infos.
	Major, Minor uint32
	// Root is the directory of the filesystem that is mounted here, without the mark of a removed
	// directory; see Removed.
	Root string
	// Point is the path at which it is mounted, as this process sees it.
	Point string
	// Options are the options of this mount, Super those of the filesystem.
	Options, Super string
	Type, Source   string
	// Peers is the peer group to which mounts on this one propagate, and Master the one from which
	// they come; 0 is none. A copy of a mount in another namespace has one of them in common with
	// it.
	Peers, Master int
	// Removed is true if Root was removed after it was mounted.
	Removed bool
}

// SuperOption reports whether the filesystem has the option, e.g. "seclabel".
func (i Info) SuperOption(name string) bool {
	return slices.Contains(strings.Split(i.Super, ","), name)
}

// removedMark ends the root of a mount whose directory was removed (seq_dentry in fs/seq_file.c).
const removedMark = "//deleted"

const self = "/proc/self/mountinfo"

// Self returns the mounts that this process sees.
func Self() ([]Info, error) {
	f, err := os.Open(self)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f)
}

// Parse parses lines in the format of mountinfo. It fails if it cannot parse one of them, because
// callers use the result to decide what must not be removed.
func Parse(r io.Reader) ([]Info, error) { return parse(r, "") }

// parse is Parse for the lines that begin with a prefix.
func parse(r io.Reader, prefix string) ([]Info, error) {
	var all []Info
	lines := bufio.NewScanner(r)
	// A line has two paths, each byte of which may be escaped to four.
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		if !bytes.HasPrefix(lines.Bytes(), []byte(prefix)) {
			continue
		}
		info, err := parseLine(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %d: %w", number, err)
		}
		all = append(all, info)
	}
	return all, lines.Err()
}

func parseLine(line string) (Info, error) {
	// The optional fields between the sixth and the dash vary in number.
	left, right, dash := strings.Cut(line, " - ")
	head, tail := strings.Split(left, " "), strings.Split(right, " ")
	if !dash || len(head) < 6 || len(tail) < 2 {
		return Info{}, fmt.Errorf("%q has too few fields", line)
	}
	info := Info{Point: unescape(head[4]), Options: head[5], Type: unescape(tail[0]), Source: unescape(tail[1])}
	for _, field := range head[6:] {
		switch name, group, _ := strings.Cut(field, ":"); name {
		case "shared":
			info.Peers, _ = strconv.Atoi(group) // 0 if the kernel ever writes another thing
		case "master":
			info.Master, _ = strconv.Atoi(group)
		}
	}
	info.Root, info.Removed = strings.CutSuffix(unescape(head[3]), removedMark)
	if len(tail) > 2 {
		info.Super = tail[2]
	}
	var err error
	if info.ID, err = strconv.Atoi(head[0]); err != nil {
		return Info{}, err
	}
	if info.Parent, err = strconv.Atoi(head[1]); err != nil {
		return Info{}, err
	}
	if info.Major, info.Minor, err = ParseDevice(head[2]); err != nil {
		return Info{}, fmt.Errorf("device %q: %w", head[2], err)
	}
	return info, nil
}

// ParseDevice parses the numbers of a device, such as 8:1. That is how mountinfo and sysfs write them.
func ParseDevice(text string) (major, minor uint32, err error) {
	left, right, _ := strings.Cut(text, ":")
	first, err := strconv.ParseUint(left, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	second, err := strconv.ParseUint(right, 10, 32)
	return uint32(first), uint32(second), err
}

// unescape decodes the octal escapes that the kernel writes for spaces, tabs, newlines, backslashes
// and '#' (mangle in fs/proc_namespace.c).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// within returns the path of p relative to dir, and whether p is dir or below it.
func within(p, dir string) (rest string, ok bool) {
	if p == dir {
		return "", true
	}
	if dir == "/" {
		return strings.TrimPrefix(p, "/"), strings.HasPrefix(p, "/")
	}
	return strings.CutPrefix(p, dir+"/")
}

// locate returns the path within its filesystem of a path below a mount point.
func (i Info) locate(p string) (string, bool) {
	rest, ok := within(p, i.Point)
	return path.Join(i.Root, rest), ok
}
