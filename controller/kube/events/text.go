package events

import (
	"fmt"
	"strings"
)

// listedNames is the number of names that a message lists; inspect lists all.
const listedNames = 3

// Count returns the number and the noun, in the plural unless n is 1.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// FirstNames lists the first names, and the number of the others.
func FirstNames(names []string) string { return Names(names, listedNames) }

// Names lists up to n names, and the number of the others.
func Names(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}
