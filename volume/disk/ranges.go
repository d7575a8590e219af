package disk

import "fmt"

// Mode is how a device is wiped.
type Mode string

const (
	// Zero writes zeros over the whole device. A disk that can does it by itself.
	Zero Mode = "zero"
	// Discard marks the whole device as unused, and writes zeros where it then reads as anything
	// else.
	Discard Mode = "discard"
	// Quick writes zeros where filesystems, partition tables, LVM, md and Ceph have their
	// metadata. The next tenant can read the rest.
	Quick Mode = "quick"
)

// ParseMode returns the mode of that name.
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case Zero, Discard, Quick:
		return m, nil
	}
	return "", fmt.Errorf("wipe mode %q is none of zero, discard and quick", name)
}

const (
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
	// quickBytes is how much quick wipes at each offset.
	quickBytes = 100 * mebibyte
	// tailBytes is how much quick wipes at the end: the backup of a GPT, and md superblocks of
	// versions 0.90 and 1.0.
	tailBytes = mebibyte
)

// quickOffsets are where a Ceph OSD keeps its label and the copies of it.
var quickOffsets = []int64{0, gibibyte, 10 * gibibyte, 100 * gibibyte, 1000 * gibibyte}

// span is the bytes from `from` up to `to`, without that one.
type span struct{ from, to int64 }

// spans returns what the mode wipes on a device of that size: in order, and without a byte twice.
func (m Mode) spans(size int64) []span {
	if m != Quick {
		return []span{{0, size}}
	}
	return around(size, quickBytes)
}

// around returns `bytes` at each of quickOffsets, and the tail.
func around(size, bytes int64) (all []span) {
	add := func(s span) {
		s.to = min(s.to, size)
		if n := len(all); n > 0 && s.from <= all[n-1].to {
			all[n-1].to = max(all[n-1].to, s.to)
		} else if s.from < s.to {
			all = append(all, s)
		}
	}
	tail := span{max(0, size-tailBytes), size}
	for _, offset := range quickOffsets {
		if offset > tail.from {
			break
		}
		add(span{offset, offset + bytes})
	}
	add(tail)
	return all
}

const (
	// samples is how many places in between are read for data without a signature. The disk seeks
	// to each, so more of them would take minutes of many disks.
	samples     = 256
	sampleBytes = 4096
)

// sampled returns where a device is read for data without a signature that the mode would wipe.
// Data at the places that quick wipes is found in any case.
func (m Mode) sampled(size int64) (all []span) {
	if m == Quick {
		return nil
	}
	for i := range int64(samples) {
		from := size / samples * i &^ (sampleBytes - 1)
		all = append(all, span{from, min(from+sampleBytes, size)})
	}
	return all
}

func total(spans []span) (bytes int64) {
	for _, s := range spans {
		bytes += s.to - s.from
	}
	return bytes
}
