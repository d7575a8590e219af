package nodes

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// written are the files of a volume that its pod goes on writing to.
var written = []string{"log", "held"}

// fillOddly puts into a volume what a careless copy would lose.
func fillOddly(s *harness.Scene, root string) {
	s.Helper()
	at := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	old := time.Date(2021, 2, 3, 4, 5, 6, 789, time.UTC)
	for _, err := range []error{
		os.Mkdir(at("dir"), 0o755),
		os.WriteFile(at("file"), []byte("precious "+root), 0o600),
		os.WriteFile(at("odd \n\xff name"), nil, 0o000),
		os.WriteFile(at("program"), []byte("#!/bin/sh\n"), 0o755),
		sparse(at("sparse")),
		os.Link(at("file"), at("dir", "linked")),
		os.Symlink("nowhere", at("link")),
		syscall.Mkfifo(at("pipe"), 0o622),
		os.Chown(at("dir"), 1000, 2000), os.Chown(at("file"), 107, 36), os.Lchown(at("link"), 5, 6), os.Chown(at("program"), 3, 4),
		syscall.Chmod(at("dir"), 0o3775), syscall.Chmod(at("program"), 0o6755),
		syscall.Setxattr(at("file"), "user.colour", []byte("blue\x00green"), 0),
		syscall.Setxattr(at("dir"), "trusted.colour", []byte("red"), 0),
		os.Chtimes(at("file"), old, old), os.Chtimes(at("dir"), old, old),
	} {
		must(s, "fill "+root, err)
	}
}

// sparse makes a file that is mostly hole.
func sparse(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("in the middle"), 1<<20)
	return errors.Join(err, f.Truncate(4<<20), f.Sync(), f.Close())
}

// snapshot says of each file below root all that can be seen of it, but for what a pod writes
// meanwhile.
func snapshot(root string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			all[strings.TrimPrefix(path, root)], err = describe(path, d)
		}
		return err
	})
	return all, err
}

func describe(path string, d fs.DirEntry) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return "", err
	}
	text := fmt.Sprintf("inode %d mode %o links %d owner %d:%d", st.Ino, st.Mode, st.Nlink, st.Uid, st.Gid)
	if slices.Contains(written, d.Name()) {
		return text, nil
	}
	text += fmt.Sprintf(" size %d blocks %d modified %v changed %v", st.Size, st.Blocks, st.Mtim, st.Ctim)
	switch {
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(path)
		return text + " to " + target, err
	case d.IsDir():
		attributes, err := xattrs(path)
		return text + attributes, err
	case !d.Type().IsRegular():
		return text, nil
	}
	attributes, err := xattrs(path)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	return fmt.Sprintf("%s%s sum %x", text, attributes, sha256.Sum256(data)), err
}

func xattrs(path string) (text string, err error) {
	list := make([]byte, 4096)
	n, err := syscall.Listxattr(path, list)
	for name := range bytes.SplitSeq(bytes.TrimRight(list[:max(n, 0)], "\x00"), []byte{0}) {
		if err != nil || len(name) == 0 {
			break
		}
		value := make([]byte, 4096)
		n, err = syscall.Getxattr(path, string(name), value)
		text += fmt.Sprintf(" %s=%q", name, value[:max(n, 0)])
	}
	return text, err
}

// differing lists what one snapshot has otherwise than the other.
func differing(before, now map[string]string) (all []string) {
	names := maps.Clone(before)
	maps.Copy(names, now)
	for name := range names {
		if before[name] != now[name] {
			all = append(all, fmt.Sprintf("%q\nwas %s\nis  %s", name, before[name], now[name]))
		}
	}
	return all
}

// linesOf counts the lines of a log. Every pod that wrote to it counts its own, from one on; none
// may be missing.
func linesOf(path string) (lines int, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	last := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var (
			pod string
			n   int
		)
		if _, err := fmt.Sscanf(line, "%s %d\n", &pod, &n); err != nil || n != last[pod]+1 || line[len(line)-1] != '\n' {
			return lines, fmt.Errorf("%s: line %d is %q after %d of that pod", path, lines+1, line, last[pod])
		}
		last[pod] = n
		lines++
	}
	return lines, nil
}
