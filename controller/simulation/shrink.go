package simulation

import "slices"

// Shrink returns a shorter run that still fails: it leaves steps out as long as fails returns true
// without them, first in large pieces. Pauses are shortened last. It asks at most limit times.
func Shrink(words []string, limit int, fails func([]string) bool) []string {
	ask := func(candidate []string) bool {
		if limit--; limit < 0 {
			return false
		}
		return fails(candidate)
	}
	for size := len(words) / 2; size > 0; {
		shorter := false
		for at := len(words) - size; at >= 0; at -= size { // the end first: what led to the failure is there
			if candidate := slices.Delete(slices.Clone(words), at, at+size); ask(candidate) {
				words, shorter = candidate, true
			}
			at = min(at, len(words))
		}
		if !shorter || size > len(words) {
			size = min(size, len(words)) / 2
		}
	}
	return words
}
