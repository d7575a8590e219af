package power

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// linesBefore is how much of the log a Failure has.
const linesBefore = 60

// Failure is a disk on which something that a caller was told does not hold.
type Failure struct {
	Case   string
	Faults []Fault
	Before []string // what happened before the power cut
}

// String returns the case, its faults, and what happened before.
func (f Failure) String() string {
	text := f.Case
	for _, fault := range f.Faults {
		text += "\n    " + strings.TrimPrefix(fault.Name+": ", ": ") + fault.Text
	}
	return text + "\n      | " + strings.Join(f.Before, "\n      | ")
}

// early reports whether the log shows that the kernel is to blame: btrfs's fsync(2) of a directory
// can return before anything is flushed while other callers flush the same directory. Then there is
// no flush between the last step of a call, which announces its fsync, and its success. The log
// shows nothing else if the pool does not call fsync(2) at all, so this holds for several callers
// at once alone: the logs of one caller show that.
func (f Filesystem) early(d disk, faults []Fault) bool {
	return f.Kernel == "btrfs" && d.callers > 1 && !slices.ContainsFunc(faults, func(fault Fault) bool {
		return fault.Name == "" || !unflushed(d.log[:d.at], fault.Name)
	})
}

// unflushed reports whether there is no flush between the last step in the last call for a volume
// and its success.
func unflushed(log []Event, name string) bool {
	told := false
	for _, e := range slices.Backward(log) {
		switch {
		case !told:
			told = e.Kind == Told && e.Note.Name == name
		case e.Kind == Flush:
			return false
		case e.Kind == Step:
			return true
		}
	}
	return false
}

// before returns what happened last, for people.
func before(log []Event) (lines []string) {
	writes := 0
	for _, e := range log {
		if e.Kind == Write {
			writes++
			continue
		}
		if writes > 0 {
			lines, writes = append(lines, fmt.Sprintf("%d writes", writes)), 0
		}
		if e.Kind == Flush {
			lines = append(lines, "flush")
		} else {
			lines = append(lines, map[Kind]string{Ask: "ask ", Told: "told ", Step: "step "}[e.Kind]+e.Note.Text)
		}
	}
	if writes > 0 {
		lines = append(lines, fmt.Sprintf("%d writes", writes))
	}
	return lines[max(0, len(lines)-linesBefore):]
}

// keep writes the disk of a failure to a sparse file.
func (r *Replay) keep(d disk) error {
	if r.Keep == "" {
		return nil
	}
	if err := r.Disk.Cut(d.kept); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Keep, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.Keep, fmt.Sprintf("%s-%d.img", r.Filesystem.Name, len(r.Result.Failures))))
	if err != nil {
		return err
	}
	defer f.Close()
	zero := string(make([]byte, blockSize))
	for at := 0; at < len(r.Disk.shown); at += blockSize {
		if block := r.Disk.shown[at : at+blockSize]; string(block) != zero {
			if _, err := f.WriteAt(block, int64(at)); err != nil {
				return err
			}
		}
	}
	return f.Truncate(int64(len(r.Disk.shown)))
}
