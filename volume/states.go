package volume

// States counts the volumes by state, also those that List does not return:
// Creating and Deleting ones, of which a call is under way or left something
// half done. A volume that is in the trash with its record is none of them.
// Every state has a count. It asks memory alone.
func (p *Pool) States() map[State]int {
	counts := map[State]int{Creating: 0, Ready: 0, Bound: 0, Deleting: 0}
	p.records.Each(func(r Record) { counts[r.State]++ })
	return counts
}
