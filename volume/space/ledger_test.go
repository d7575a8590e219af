package space

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestAccount(t *testing.T) {
	const unit = 1000
	volumes := func(bytes ...int64) map[string]record.Record {
		m := map[string]record.Record{}
		for i, b := range bytes {
			name := string(rune('a' + i))
			m[name] = record.Record{Name: name, State: record.Ready, Bytes: b}
		}
		return m
	}
	for _, c := range []struct {
		name        string
		total, free uint64    // in blocks of unit bytes
		inodes      [2]uint64 // in all and free; some filesystems count none
		records     map[string]record.Record
		used        map[string]int64
		reserved    map[string]int64
		reserve     int64
		ratio       float64

		elsewhere, usedElsewhere int64
		want                     Space
	}{
		{name: "empty disk", total: 100, free: 100, ratio: 1,
			want: Space{Total: 100000, Free: 100000, Available: 100000}},
		{name: "others' data", total: 100, free: 60, ratio: 1,
			want: Space{Total: 100000, Free: 60000, External: 40000, Available: 60000}},
		{name: "inodes left", total: 100, free: 60, inodes: [2]uint64{1000, leastInodes}, ratio: 1,
			want: Space{Total: 100000, Free: 60000, External: 40000, Available: 60000}},
		{name: "too few inodes", total: 100, free: 60, inodes: [2]uint64{1000, leastInodes - 1}, ratio: 1,
			want: Space{Total: 100000, Free: 60000, External: 40000, NoInodes: true}},
		{name: "no inodes, overcommit", total: 100, free: 100, inodes: [2]uint64{1000, 0}, ratio: 2,
			want: Space{Total: 100000, Free: 100000, NoInodes: true}},
		{name: "a volume, its use unknown", total: 100, free: 90, records: volumes(30000), ratio: 1,
			want: Space{Total: 100000, Free: 90000, External: 10000, Allocated: 30000, Available: 60000, Estimate: true}},
		{name: "a volume, its use known", total: 100, free: 90, records: volumes(30000), used: map[string]int64{"a": 10000}, ratio: 1,
			want: Space{Total: 100000, Free: 90000, Used: 10000, Allocated: 30000, Available: 70000, Estimate: true}},
		{name: "a volume that outgrew its allocation", total: 100, free: 50, records: volumes(30000), used: map[string]int64{"a": 50000}, ratio: 1,
			want: Space{Total: 100000, Free: 50000, Used: 30000, External: 20000, Allocated: 30000, Available: 50000, Estimate: true}},
		{name: "a reservation", total: 100, free: 100, reserved: map[string]int64{"a": 30000}, ratio: 1,
			want: Space{Total: 100000, Free: 100000, Allocated: 30000, Available: 70000}},
		{name: "a reservation that has a record by now", total: 100, free: 100, records: volumes(30000),
			reserved: map[string]int64{"a": 30000}, ratio: 1,
			want: Space{Total: 100000, Free: 100000, Allocated: 30000, Available: 70000, Estimate: true}},
		{name: "another pool's volume", total: 100, free: 90, elsewhere: 30000, usedElsewhere: 10000, ratio: 1,
			want: Space{Total: 100000, Free: 90000, Elsewhere: 30000, Available: 70000}},
		{name: "both allocated too much", total: 100, free: 100, records: volumes(math.MaxInt64), elsewhere: math.MaxInt64, ratio: 1,
			want: Space{Total: 100000, Free: 100000, Allocated: math.MaxInt64, Elsewhere: math.MaxInt64, Estimate: true}},
		{name: "a deleted volume", total: 100, free: 90, ratio: 1,
			records: map[string]record.Record{"a": {Name: "a", State: record.Deleting, Bytes: 30000}},
			want:    Space{Total: 100000, Free: 90000, External: 10000, Available: 90000}},
		{name: "reserve", total: 100, free: 100, reserve: 10000, ratio: 1,
			want: Space{Total: 100000, Free: 100000, Available: 90000}},
		{name: "reserve above all", total: 100, free: 100, reserve: math.MaxInt64, ratio: 1,
			want: Space{Total: 100000, Free: 100000}},
		{name: "overcommit, never above free", total: 100, free: 80, ratio: 2,
			want: Space{Total: 100000, Free: 80000, External: 20000, Available: 80000}},
		{name: "overcommit, the reserve stays free", total: 100, free: 80, reserve: 30000, ratio: 2,
			want: Space{Total: 100000, Free: 80000, External: 20000, Available: 50000}},
		{name: "overcommit, the reserve is larger than what is free", total: 100, free: 20, reserve: 30000, ratio: 2,
			want: Space{Total: 100000, Free: 20000, External: 80000}},
		{name: "overcommit", total: 100, free: 100, records: volumes(90000), ratio: 1.5,
			want: Space{Total: 100000, Free: 100000, Allocated: 90000, Available: 60000, Estimate: true}},
		{name: "undercommit", total: 100, free: 100, ratio: 0.5,
			want: Space{Total: 100000, Free: 100000, Available: 50000}},
		{name: "allocated too much", total: 100, free: 100, records: volumes(math.MaxInt64, math.MaxInt64), ratio: 1,
			want: Space{Total: 100000, Free: 100000, Allocated: math.MaxInt64, Estimate: true}},
		{name: "more than an int64 holds", total: math.MaxUint64, free: math.MaxUint64, ratio: 1e300,
			want: Space{Total: math.MaxInt64, Free: math.MaxInt64, Available: math.MaxInt64}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := Ledger{reserve: c.reserve, overcommit: c.ratio, records: record.NewStore(func(string) {}), reserved: c.reserved, sure: evidence{walked: c.used}}
			l.records.Reset(record.Loaded{Records: c.records})
			st := &unix.Statfs_t{Blocks: c.total, Bavail: c.free, Frsize: unit, Files: c.inodes[0], Ffree: c.inodes[1]}
			got := l.account(st, others{c.elsewhere, []finding{{c.usedElsewhere, 0}}, 0}, 0, 0)
			got.margins = margins{}
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}
