package power

import (
	"math/rand/v2"
	"slices"
)

// A choice says which of the writes that were not flushed reach the disk.
type choice string

const (
	none   choice = "none"
	all    choice = "all"
	half   choice = "half"
	few    choice = "few"
	most   choice = "most"
	prefix choice = "prefix" // a disk that keeps their order
	suffix choice = "suffix" // one that writes the last first
	one    choice = "one"
	butOne choice = "but one"
	torn   choice = "torn" // half of the sectors, whichever write they are of
)

// sector is how many bytes a disk writes whole. Filesystems need as many: if a directory's block of
// 4 KiB is torn while XFS recovers, the next recovery takes it for written by the sequence number
// in its first 512 bytes, and fails.
const sector = 4096

// choices returns the choices to try for n writes: none first, which shows best what was not
// flushed, and others up to so many.
func choices(n, limit int, random *rand.Rand) []choice {
	var others []choice
	switch n {
	case 0:
	case 1:
		others = []choice{all, torn}
	case 2:
		others = []choice{all, one, suffix, torn}
	default:
		others = []choice{all, half, few, most, prefix, suffix, one, butOne, torn}
	}
	random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return append([]choice{none}, others[:min(len(others), limit-1)]...)
}

// kept returns the writes that reach the disk, in the order of the log.
func (c choice) kept(writes []Event, random *rand.Rand) []Event {
	n := len(writes)
	if n == 0 || c == none {
		return nil
	}
	switch c {
	case all:
		return writes
	case prefix:
		return writes[:random.IntN(n+1)]
	case suffix:
		return writes[random.IntN(n):]
	case one:
		i := random.IntN(n)
		return writes[i : i+1]
	case butOne:
		i := random.IntN(n)
		return slices.Delete(slices.Clone(writes), i, i+1)
	case torn:
		return chosen(tear(writes), 0.5, random)
	}
	return chosen(writes, map[choice]float64{few: 0.15, half: 0.5, most: 0.85}[c], random)
}

// chosen returns each of the writes with this probability.
func chosen(writes []Event, p float64, random *rand.Rand) (some []Event) {
	for _, w := range writes {
		if random.Float64() < p {
			some = append(some, w)
		}
	}
	return some
}

// tear divides writes at sectors.
func tear(writes []Event) (parts []Event) {
	for _, w := range writes {
		for len(w.Data) > 0 {
			n := min(sector-w.Offset%sector, int64(len(w.Data)))
			parts = append(parts, Event{Kind: Write, Offset: w.Offset, Data: w.Data[:n]})
			w.Offset, w.Data = w.Offset+n, w.Data[n:]
		}
	}
	return parts
}
