package trash

import "cmp"

// Victims returns the volumes to remove so that so many bytes become free, in that order. Each is the
// oldest of the namespace with the most kept bytes: who deletes much loses his own. A volume without
// sure bytes is none, because its removal may free nothing. With inodes set there is at least one,
// whatever its bytes are. all is sorted, the oldest first.
func Victims(all []Kept, need int64, inodes bool) (victims []Kept) {
	sums := map[string]int64{}
	for _, k := range all {
		sums[k.Record.Owner.Namespace] += k.Bytes
	}
	gone := map[string]bool{}
	for need > 0 || inodes && len(victims) == 0 {
		var next *Kept
		for i, k := range all {
			if gone[k.ID] || k.Bytes == 0 && (!inodes || len(victims) > 0) {
				continue
			}
			if next == nil || before(sums, k, *next) {
				next = &all[i]
			}
		}
		if next == nil {
			return victims
		}
		gone[next.ID] = true
		sums[next.Record.Owner.Namespace] -= next.Bytes
		need -= next.Bytes
		victims = append(victims, *next)
	}
	return victims
}

// before compares the namespaces of two volumes: the one with more kept bytes comes first.
func before(sums map[string]int64, a, b Kept) bool {
	x, y := a.Record.Owner.Namespace, b.Record.Owner.Namespace
	return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y)) < 0
}
