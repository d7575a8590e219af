package events

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// Listed is how many names a message about the whole cluster lists, with Names.
const Listed = 10

// FirstNames lists the first names, and the number of the others.
func FirstNames(names []string) string { return Names(names, listedNames) }

// Names lists up to n names, and the number of the others.
func Names(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// ToDeleteClaim returns the commands that delete the claim of a PV, and wait unless flags say otherwise.
// An event is read for an hour, and a StatefulSet makes a claim of a deleted one's name at once: the
// commands delete only a claim that names the PV.
func ToDeleteClaim(claim *corev1.PersistentVolumeClaim, pv, flags string) string {
	return fmt.Sprintf("kubectl -n %[1]s get pvc %[2]s -o jsonpath='{.spec.volumeName}' | grep -qx %[3]s && "+
		"kubectl -n %[1]s delete pvc %[2]s%[4]s; ", claim.Namespace, claim.Name, pv, flags)
}

// MaxNote is the longest text of an event of the API events.k8s.io/v1; the API server refuses others.
const MaxNote = 1024

// Fit returns a text of at most max bytes. Of a list with "; " between its parts it has those that fit,
// and counts the others.
func Fit(text string, max int) string {
	if len(text) <= max {
		return text
	}
	parts, n, size := strings.Split(text, "; "), 0, 0
	more := func(n int) string { return fmt.Sprintf("; and %d more", len(parts)-n) }
	for n < len(parts) && size+len(parts[n])+len(more(n+1)) <= max {
		size += len(parts[n]) + len("; ")
		n++
	}
	if n > 0 {
		return strings.Join(parts[:n], "; ") + more(n)
	}
	const cut = "…"
	return strings.ToValidUTF8(text[:max-len(cut)], "") + cut
}
