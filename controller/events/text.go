package events

import (
	"fmt"
	"strings"
)

// someNames is how many names Some returns; inspect shows all.
const someNames = 3

// Count returns the number and the noun, in the plural unless n is 1.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Some returns the first names, and how many more there are.
func Some(names []string) string {
	if len(names) <= someNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:someNames], ", "), len(names)-someNames)
}
