package tree

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A listing identifies the entries of a tree, in memory that does not depend on their number.
type listing struct {
	// sum adds up a hash of each entry, so it does not depend on their order.
	sum     [sha256.Size / 8]uint64
	entries int64 // below the top
	files   int64 // regular files with data
	linked  bool  // one of them, or another entry, has several links
	latest  string

	changes Changes
	top     string
	changed time.Time // when the last change was, of the directory itself, too
	newest  time.Time // of latest
	one     inode     // the first file with data
	buf     []byte
}

// list lists a tree with what CopyOptions.Changes requires to stay the same.
func list(ctx context.Context, dir int, name string, o CopyOptions) (*listing, error) {
	l := &listing{changes: o.Changes, entries: -1, latest: "the directory"}
	return l, Walk(ctx, dir, name, o.Pace, l.add)
}

// add adds an entry. The name of the top is not added: its owner is not the tenant.
func (l *listing) add(at int, name string, st *unix.Statx_t) error {
	kind := st.Mode & unix.S_IFMT
	if l.entries++; l.entries == 0 {
		if dir, err := os.Readlink(procPath(at)); err == nil {
			l.top = dir + "/" + name
		}
		name = ""
	}
	l.linked = l.linked || kind != unix.S_IFDIR && st.Nlink > 1
	data := kind == unix.S_IFREG && st.Size > 0
	if data && (st.Nlink == 1 || l.one != inodeOf(st)) {
		if l.files++; l.files == 1 {
			l.one = inodeOf(st)
		}
	}
	loose := l.changes == ChangesOfFiles && kind != unix.S_IFDIR || l.changes == ChangesOfOneFile && data
	l.buf = append(l.buf[:0], name...)
	l.buf = append(l.buf, 0)
	for _, n := range []uint64{uint64(st.Dev_major), uint64(st.Dev_minor), st.Ino, uint64(kind)} {
		l.buf = binary.LittleEndian.AppendUint64(l.buf, n)
	}
	if !loose {
		l.buf = binary.LittleEndian.AppendUint64(l.buf, uint64(st.Ctime.Sec))
		l.buf = binary.LittleEndian.AppendUint32(l.buf, st.Ctime.Nsec)
		l.buf = binary.LittleEndian.AppendUint64(l.buf, st.Size)
		l.note(at, name, time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec)))
	}
	hash := sha256.Sum256(l.buf)
	for i := range l.sum {
		l.sum[i] += binary.LittleEndian.Uint64(hash[i*8:])
	}
	return nil
}

// note keeps when the last change was, and the path of the entry below the top that changed last, for a
// message.
func (l *listing) note(at int, name string, ctime time.Time) {
	if ctime.After(l.changed) {
		l.changed = ctime
	}
	if !ctime.After(l.newest) || name == "" {
		return
	}
	l.newest = ctime
	l.latest = shown(name)
	if dir, err := os.Readlink(procPath(at)); err == nil {
		if rest, below := strings.CutPrefix(dir, l.top); below {
			l.latest = shown(strings.TrimPrefix(rest+"/"+name, "/"))
		}
	}
}

// unsettled returns how long a copy has to wait so that each later change gives its inode another ctime
// than the listing has: until the last change is a tick ago, and a tick if its time has yet to come.
func (l *listing) unsettled(now time.Time) time.Duration {
	return min(max(tick-now.Sub(l.changed), 0), tick)
}
