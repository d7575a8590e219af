package power

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTear(t *testing.T) {
	data := bytes.Repeat([]byte{1, 2, 3, 4}, 2048)
	var at []int64
	var whole []byte
	for _, w := range tear([]Event{{Kind: Write, Offset: 1000, Data: data}}) {
		if w.Offset/sector != (w.Offset+int64(len(w.Data))-1)/sector {
			t.Errorf("%d bytes at %d are in two sectors", len(w.Data), w.Offset)
		}
		at, whole = append(at, w.Offset), append(whole, w.Data...)
	}
	if want := []int64{1000, 4096, 8192}; !slices.Equal(at, want) || !bytes.Equal(whole, data) {
		t.Errorf("parts at %d", at)
	}
}

// Every choice keeps writes of the log, in its order, and the same ones for the same seed.
func TestKept(t *testing.T) {
	var writes []Event
	for i := range 10 {
		writes = append(writes, Event{Kind: Write, Offset: int64(i) * 8192, Data: make([]byte, 8192)})
	}
	for c, most := range map[choice]int{none: 0, all: 10, half: 10, few: 10, "most": 10, prefix: 10, suffix: 10, one: 1, butOne: 9, torn: 20} {
		some := 0
		for seed := range uint64(20) {
			kept := c.kept(writes, rand.New(rand.NewPCG(seed, 0)))
			again := c.kept(writes, rand.New(rand.NewPCG(seed, 0)))
			if len(kept) != len(again) || len(kept) > most {
				t.Errorf("%s: %d writes, then %d", c, len(kept), len(again))
			}
			if !slices.IsSortedFunc(kept, func(a, b Event) int { return int(a.Offset - b.Offset) }) {
				t.Errorf("%s: another order", c)
			}
			some += len(kept)
		}
		if some == 0 && c != none {
			t.Errorf("%s keeps nothing", c)
		}
	}
	if got := choices(10, 3, rand.New(rand.NewPCG(1, 1))); len(got) != 3 || got[0] != none {
		t.Errorf("choices %q", got)
	}
}

// A failure is the kernel's only on btrfs, with several callers, and only if nothing was flushed
// before the call ended.
func TestEarly(t *testing.T) {
	step, told := Event{Kind: Step}, Event{Kind: Told, Note: Note{Name: "v"}}
	early, late := []Event{step, told}, []Event{step, {Kind: Flush}, told}
	for _, row := range []struct {
		name    string
		kernel  string
		callers int
		log     []Event
		of      string
		want    bool
	}{
		{"early", "btrfs", 3, early, "v", true},
		{"flushed", "btrfs", 3, late, "v", false},
		{"one caller", "btrfs", 1, early, "v", false},
		{"another filesystem", "xfs", 3, early, "v", false},
		{"another volume", "btrfs", 3, early, "w", false},
		{"the whole pool", "btrfs", 3, early, "", false},
	} {
		d := disk{log: row.log, at: len(row.log), callers: row.callers}
		if got := (Filesystem{Kernel: row.kernel}).early(d, []Fault{{Name: row.of}}); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// Without a journal the power goes only while no call is under way.
func TestCuts(t *testing.T) {
	log := []Event{{Kind: Ask}, {Kind: Write}, {Kind: Flush}, {Kind: Told}, {Kind: Write}, {Kind: Write}}
	for unordered, want := range map[bool][]int{false: {2, 4, 5, 6}, true: {4, 5, 6}} {
		var at []int
		moments, _ := Filesystem{Unordered: unordered}.cuts(log)
		for _, m := range moments {
			at = append(at, m.at)
		}
		if !slices.Equal(at, want) {
			t.Errorf("unordered %v: cut at %d, want %d", unordered, at, want)
		}
	}
}
