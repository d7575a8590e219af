package record

import (
	"slices"
	"testing"
	"time"
)

// A copy of a copy counts for the first original once what is between them is gone, and not before.
func TestCopiesOfCopies(t *testing.T) {
	born := time.Unix(1e9, 0)
	made := func(name string, bytes int64, of *Source) Record {
		return Record{Name: name, Bytes: bytes, Created: born, Trash: "T" + name, Source: of}
	}
	after := func(r Record) *Source {
		s := SourceOf("", r)
		s.Before = r.Source
		return &s
	}
	v := made("v", 10, nil)
	c1 := made("c1", 20, after(v))
	c2 := made("c2", 30, after(c1))
	c3 := made("c3", 40, after(c2))
	beside := made("beside", 1000, after(v))
	other := made("v", 10, nil)
	other.Created = born.Add(time.Minute) // another volume of its name

	for _, row := range []struct {
		there []Record
		of    Record
		size  int64
		want  int64
	}{
		{[]Record{v, c1}, v, 100, 20},
		{[]Record{v, c1, c2, c3}, v, 100, 20},
		{[]Record{v, c2, c3}, v, 100, 30},
		{[]Record{v, c1, c3}, v, 100, 20},
		{[]Record{v, c1, c3}, c1, 100, 40},
		{[]Record{v, c3}, v, 100, 40},
		{[]Record{v}, v, 100, 0},
		{[]Record{v, c1, c2, c3, beside}, v, 1000, 1020},
		{[]Record{v, c1, c2, c3, beside}, v, 10, 20}, // larger copies have no more of it
		{[]Record{v, c1, c2, c3}, c3, 100, 0},
		{[]Record{v, c1, c2, c3}, other, 100, 0},
	} {
		var copies Copies
		for _, r := range row.there {
			copies.Add(r)
		}
		of := SourceOf("", row.of)
		if got := CopiedBytes(of, row.size, slices.Concat(copies.Of(of), copies.Of(of))); got != row.want {
			t.Errorf("copies of %s among %d volumes have %d bytes, want %d", row.of.Name, len(row.there), got, row.want)
		}
		for _, r := range row.there {
			copies.Remove(r)
		}
		if names := copies.Sources(); len(names) > 0 {
			t.Errorf("copies that are gone are of %q", names)
		}
	}
}

// A chain of copies of copies is cut at its far end.
func TestChain(t *testing.T) {
	var all []Source
	for i := range 100 {
		all = append(all, Source{Volume: string(rune('a' + i))})
	}
	n := 0
	for at := Chain(all); at != nil; at = at.Before {
		if at.Volume != all[n].Volume {
			t.Errorf("%d is %q, want %q", n, at.Volume, all[n].Volume)
		}
		n++
	}
	if n != 16 || Chain(nil) != nil {
		t.Errorf("%d sources, want 16, and none of none", n)
	}
}
