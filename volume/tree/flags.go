package tree

import (
	"golang.org/x/sys/unix"
)

// ioctl numbers of include/uapi/linux/fs.h. Both move 32 bits, whatever their number says.
const (
	getFlags = 0x80086601 // FS_IOC_GETFLAGS
	setFlags = 0x40086602 // FS_IOC_SETFLAGS
)

// Flags of inodes, FS_*_FL of include/uapi/linux/fs.h, with their letters in lsattr(1).
const (
	flagImmutable = 0x10     // i
	flagAppend    = 0x20     // a
	flagNoDump    = 0x40     // d
	flagNoCow     = 0x800000 // C
)

// flagLetters are the flags that a message can name.
var flagLetters = []struct {
	flag   int
	letter string
}{{flagImmutable, "i"}, {flagAppend, "a"}, {flagNoDump, "d"}, {flagNoCow, "C"}}

// flagsOf returns the flags of an open file or directory, 0 on a filesystem without flags.
func flagsOf(fd int) int {
	flags, err := unix.IoctlGetUint32(fd, getFlags)
	if err != nil {
		return 0
	}
	return int(flags)
}

// flagInto gives the inode to those of the flags in mask that want has, and takes the others of
// mask from it. It returns the letters of those that it could not give.
func flagInto(to, want, mask int) (lost []string) {
	now := flagsOf(to)
	if (now^want)&mask == 0 {
		return nil
	}
	if unix.IoctlSetPointerInt(to, setFlags, now&^mask|want&mask) == nil {
		return nil
	}
	for _, f := range flagLetters {
		if f.flag&mask&want&^now != 0 {
			lost = append(lost, f.letter)
		}
	}
	return lost
}

// flag gives a copied file the flags that it gets at its end.
func (c *copier) flag(out int, name string, flags int, st *unix.Statx_t) {
	mask := flagNoDump | flagAppend
	if st.Nlink > 1 {
		mask &^= flagAppend // dropLinks sets it
	}
	c.lose(name, flagInto(out, flags, mask))
	if flags&flagImmutable != 0 {
		c.lose(name, []string{"i"})
	}
}

// flagDir gives the current directory its flags. The top gets none that keep it from being renamed.
func (c *copier) flagDir(from int) {
	flags, mask := flagsOf(from), flagNoDump|flagNoCow|flagAppend
	lost := flags & flagImmutable
	if len(c.to.steps) == 1 {
		mask &^= flagAppend
		lost |= flags & flagAppend
	}
	c.lose(".", flagInto(c.to.here().fd, flags, mask))
	for _, f := range flagLetters {
		if lost&f.flag != 0 {
			c.lose(".", []string{f.letter})
		}
	}
}

// lose adds flags of an entry to the list of what is left out.
func (c *copier) lose(name string, letters []string) {
	for _, letter := range letters {
		c.omit(name, "the copy does not have its flag "+letter)
	}
}
