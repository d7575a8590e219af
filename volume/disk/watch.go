package disk

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Watcher notices that devices come to a directory or leave it.
type Watcher struct {
	dir   string
	names *regexp.Regexp
	file  *os.File
	wake  func()
}

// watched are the changes of a directory that matter: a device that is written to is no change.
const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_ONLYDIR

// Watch calls wake, from a goroutine of its own, when a file that the expression matches, or a
// directory, comes or goes below dir. The caller closes the Watcher. A directory that is removed or
// unmounted is not watched any more; Watch again after a while.
func Watch(dir string, names *regexp.Regexp, wake func()) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &Watcher{dir: dir, names: names, file: os.NewFile(uintptr(fd), "inotify"), wake: wake}
	if err := w.add(fd, dir); err != nil {
		w.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// add watches a directory and those below it. A directory that is watched already stays so. One
// below that cannot be watched is left out: a rescan still finds what is in it.
func (w *Watcher) add(fd int, dir string) error {
	if _, err := unix.InotifyAddWatch(fd, dir, watched); err != nil {
		return &os.PathError{Op: "watch", Path: dir, Err: err}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = w.add(fd, filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

func (w *Watcher) run() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return // closed
		}
		matters, directories := w.read(buffer[:n])
		if directories {
			w.addAgain()
		}
		if matters {
			w.wake()
		}
	}
}

// addAgain watches the directories that came after the last time. What is created in one before it
// is watched is found by the pass that wake asks for.
func (w *Watcher) addAgain() {
	conn, err := w.file.SyscallConn()
	if err == nil {
		_ = conn.Control(func(fd uintptr) { _ = w.add(int(fd), w.dir) }) // closed, or dir is gone
	}
}

// read reads events; see inotify(7). It reports whether wake has to be called, and whether
// directories may have come. An event without a name is about a watched directory itself, or is the
// notice that events were lost.
func (w *Watcher) read(events []byte) (matters, directories bool) {
	for len(events) >= unix.SizeofInotifyEvent {
		mask, length := binary.NativeEndian.Uint32(events[4:]), int(binary.NativeEndian.Uint32(events[12:]))
		events = events[unix.SizeofInotifyEvent:]
		name := strings.TrimRight(string(events[:min(length, len(events))]), "\x00")
		events = events[min(length, len(events)):]
		directory := name == "" || mask&unix.IN_ISDIR != 0
		directories = directories || directory
		matters = matters || directory || w.names.MatchString(name)
	}
	return matters, directories
}

// Watches reports whether the Watcher was made for that directory and expression.
func (w *Watcher) Watches(dir string, names *regexp.Regexp) bool {
	return w.dir == dir && w.names.String() == names.String()
}

// Close ends the watch.
func (w *Watcher) Close() { _ = w.file.Close() }
