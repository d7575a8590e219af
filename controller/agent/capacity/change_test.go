package capacity

import (
	"math"
	"testing"
	"time"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
	tib = int64(1) << 40
)

func TestRoundDown(t *testing.T) {
	for bytes, want := range map[int64]int64{
		0: 0, 1: 1, 2047: 2047, 2048: 2048, 2049: 2048, 4095: 4094,
		10 * gib: 10 * gib, 1500 * mib: 1500 * mib, 1000 * gib: 1000 * gib, tib: tib, tib - 1: tib - gib/2,
		math.MaxInt64: math.MaxInt64 - (1<<52 - 1),
	} {
		if got := roundDown(bytes); got != want {
			t.Errorf("roundDown(%d) = %d, want %d", bytes, got, want)
		}
	}
	// The promise of the package comment, for numbers of every length.
	for bytes := int64(1); bytes < math.MaxInt64/3; bytes = bytes*3 - bytes/5 {
		if got := roundDown(bytes); got > bytes || (bytes-got) > bytes/1024 {
			t.Errorf("roundDown(%d) = %d: cut by more than a thousandth", bytes, got)
		}
	}
}

func TestDue(t *testing.T) {
	before := sample{bytes: 100 * gib, allocated: 50 * gib, total: tib, ready: true, changes: 7}
	with := func(bytes int64, change func(*sample)) sample {
		l := before
		l.bytes = bytes
		if change != nil {
			change(&l)
		}
		return l
	}
	told := func(l *sample) { l.changes++ }
	allocated := func(l *sample) { l.allocated += gib }
	const never = time.Duration(math.MaxInt64)
	for name, row := range map[string]struct {
		from, to sample
		after    time.Duration // since the last write
	}{
		"nothing":                  {before, before, never},
		"told of nothing":          {before, with(100*gib, told), never},
		"a volume, number same":    {before, with(100*gib, allocated), never},
		"a volume made":            {before, with(99*gib, allocated), 0},
		"a volume made, a bit":     {before, with(100*gib-mib, allocated), 0},
		"a volume removed":         {before, with(100*gib+mib, allocated), 0},
		"not ready":                {before, sample{}, 0},
		"ready":                    {sample{}, before, 0},
		"ready, with little":       {sample{}, with(mib, nil), 0},
		"ready, without volumes":   {sample{}, sample{bytes: mib, total: tib, ready: true}, 0},
		"hardly ready, with none":  {sample{}, with(0, nil), never},
		"disk filled":              {before, with(50*gib, nil), 0},
		"disk filled by a 16th":    {before, with(100*gib-100*gib/16, nil), 0},
		"disk filled by less":      {before, with(100*gib-100*gib/16+1, nil), drift},
		"a bit less":               {before, with(100*gib-1, nil), drift},
		"a bit less, told":         {before, with(100*gib-1, told), drift},
		"trash purged":             {before, with(120*gib, told), 0},
		"others removed much":      {before, with(120*gib, nil), drift},
		"others removed a 64th":    {before, with(100*gib+100*gib/64, nil), drift},
		"others removed less":      {before, with(100*gib+100*gib/64-1, nil), creep},
		"purge of nothing, creep":  {before, with(100*gib+mib, told), creep},
		"full disk, last bytes go": {with(900*mib, nil), with(0, nil), drift},
		"full disk, some come":     {with(0, nil), with(900*mib, told), drift},
		"full disk, more come":     {with(0, nil), with(gib, told), 0},
	} {
		last := published{sample: row.from, at: time.Unix(1700000000, 0)}
		is := func(after time.Duration) bool { return due(row.from.bytes, last, row.to, last.at.Add(after)) }
		if row.after == never {
			if is(24 * time.Hour) {
				t.Errorf("%s: it is written", name)
			}
			continue
		}
		if !is(row.after) {
			t.Errorf("%s: it is not written after %v", name, row.after)
		}
		if row.after > 0 && is(row.after-time.Second) {
			t.Errorf("%s: it is written before %v are over", name, row.after)
		}
	}
}

// The object has another size than was written.
func TestDueTampered(t *testing.T) {
	l := sample{bytes: 100 * gib, total: tib, ready: true}
	last := published{sample: l, at: time.Unix(1700000000, 0)}
	for after, want := range map[time.Duration]bool{0: false, tampered - 1: false, tampered: true} {
		if got := due(5*gib, last, l, last.at.Add(after)); got != want {
			t.Errorf("%v after the last write: %v", after, got)
		}
	}
	if due(100*gib, published{}, l, time.Now()) {
		t.Error("a new agent that finds the right number writes it")
	}
	if !due(100*gib+1, published{sample: sample{bytes: 100*gib + 1}}, l, time.Now()) {
		t.Error("a new agent that finds another number leaves it")
	}
}
