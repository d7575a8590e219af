package devices

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sync writes the files below root that processes read: sysfs, proc, and /dev with its links. It
// changes those alone that differ, and removes directories that become empty, as udev does.
func (n *Node) sync() {
	want := n.tree()
	var changed []string
	for _, path := range slices.Sorted(maps.Keys(n.files)) {
		if _, keep := want[path]; !keep {
			n.remove(path)
			changed = append(changed, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if is, has := n.files[path]; !has || is != want[path] {
			n.put(path, want[path])
			changed = append(changed, path)
		}
	}
	n.files = want
	for w := range n.watchers {
		if slices.ContainsFunc(changed, w.matches) {
			w.wake()
		}
	}
}

// target begins the content of a link.
const target = "-> "

// tree returns the files that should be, with their content or target.
func (n *Node) tree() map[string]string {
	all := map[string]string{
		"/proc/sys/kernel/random/boot_id": n.bootID() + "\n",
		"/proc/swaps":                     "", "/proc/self/mountinfo": "", // the host's mounts are not the container's
	}
	for _, b := range n.blocks {
		dir := "/sys/devices/" + b.name
		if b.of != nil {
			dir = "/sys/devices/" + b.of.name + "/" + b.name
		} else {
			all["/sys/block/"+b.name] = target + dir
		}
		all["/sys/dev/block/"+b.number.String()] = target + dir
		all["/dev/"+b.name] = ""
		for name, value := range n.attributes(b) {
			all[filepath.Join(dir, name)] = value
		}
		for _, below := range b.over {
			at := "/sys/devices/" + below.name
			if below.of != nil {
				at = "/sys/devices/" + below.of.name + "/" + below.name
			}
			all[at+"/holders/"+b.name], all[dir+"/slaves/"+below.name] = target+dir, target+at
		}
		for _, link := range n.links(b) {
			// The link of several paths is one of them; that of device mapper is preferred.
			if at := "/dev/disk/" + link; all[at] == "" || b.dm != "" {
				all[at] = target + "/dev/" + b.name
			}
		}
	}
	return all
}

func (n *Node) put(path, content string) {
	at, fresh := n.root+path, n.root+"/new"
	must(os.MkdirAll(filepath.Dir(at), 0o755))
	if to, link := strings.CutPrefix(content, target); link {
		must(os.Symlink(n.root+to, fresh))
	} else {
		must(os.WriteFile(fresh, []byte(content), 0o600))
	}
	must(os.Rename(fresh, at)) // a reader never finds neither
}

func (n *Node) remove(path string) {
	must(os.Remove(n.root + path))
	for dir := filepath.Dir(n.root + path); dir != n.root && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
}

// must panics: the directory of a simulation can be written to.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// watcher is a device.Watcher.
type watcher struct {
	node  *Node
	dir   string
	names *regexp.Regexp
	wake  func()
}

func (w *watcher) matches(path string) bool {
	return strings.HasPrefix(path, w.dir+"/") && w.names.MatchString(filepath.Base(path))
}

func (w *watcher) Watches(dir string, names *regexp.Regexp) bool {
	return w.dir == dir && w.names.String() == names.String()
}

func (w *watcher) Close() {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	delete(w.node.watchers, w)
}
