package record

// Copies has the copies among some volumes, by the volumes whose blocks they may have: their source, the
// volume of which that one is a copy, and so on. The zero value is empty. The caller locks.
type Copies struct {
	all map[origin]map[origin]Copy // by one of their ancestors, and by the copy itself
}

// Copy is a volume that was made as a copy of another one.
type Copy struct {
	self   origin
	bytes  int64
	source *Source
}

// Add adds the volume of a record. It does nothing for a volume that is no copy.
func (c *Copies) Add(r Record) {
	made := Copy{r.origin(), r.Bytes, r.Source}
	for at := r.Source; at != nil; at = at.Before {
		of := originOf(*at)
		if c.all[of] == nil {
			if c.all == nil {
				c.all = map[origin]map[origin]Copy{}
			}
			c.all[of] = map[origin]Copy{}
		}
		c.all[of][made.self] = made
	}
}

// Remove removes the volume of a record that was added.
func (c *Copies) Remove(r Record) {
	for at := r.Source; at != nil; at = at.Before {
		of := originOf(*at)
		if delete(c.all[of], r.origin()); len(c.all[of]) == 0 {
			delete(c.all, of)
		}
	}
}

// Of returns the copies that may have blocks of a volume.
func (c *Copies) Of(s Source) (all []Copy) {
	for _, made := range c.all[originOf(s)] {
		all = append(all, made)
	}
	return all
}

// Sources returns the names of the volumes, in any pool, whose blocks some copy may have.
func (c *Copies) Sources() (names []string) {
	for from := range c.all {
		names = append(names, from.volume)
	}
	return names
}

// CopiedBytes returns how many bytes of blocks of a volume of that size its copies may have at most. No
// copy has more than that, however large it was made. A copy of a copy has none that the copy between
// them did not have: it counts once that one is gone. A volume that is listed twice counts once.
func CopiedBytes(of Source, size int64, all []Copy) (sum int64) {
	there := map[origin]Copy{}
	for _, made := range all {
		there[made.self] = made
	}
	for _, made := range there {
		if !made.isBehind(there, originOf(of)) {
			sum += min(made.bytes, size)
		}
	}
	return sum
}

// isBehind reports whether one of the other copies is between this one and the volume.
func (c Copy) isBehind(others map[origin]Copy, of origin) bool {
	for at := c.source; at != nil && originOf(*at) != of; at = at.Before {
		if _, ok := others[originOf(*at)]; ok {
			return true
		}
	}
	return false
}
