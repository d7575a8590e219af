//go:build linux

package space

import (
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A disk of 1000 bytes: what it lacks, what a request misses, and what the kept bytes give.
func TestLacks(t *testing.T) {
	const gone = "b"
	for name, row := range map[string]struct {
		reserve       int64
		overcommit    float64
		free          uint64
		files, ffree  uint64
		bytes, used   int64 // of the volume, whose use the kernel counts
		kept, own     int64
		wantAvailable int64
		wantKept      int64
		lacks         int64
		inodes        bool
		missing       int64 // of 100 bytes
	}{
		"empty":                          {free: 1000, wantAvailable: 1000, missing: -900},
		"all of it is kept":              {free: 0, kept: 1000, wantKept: 1000, lacks: 100, missing: 100},
		"a tenth is free":                {free: 100, kept: 900, wantAvailable: 100, wantKept: 900},
		"less than a tenth":              {free: 99, kept: 900, wantAvailable: 99, wantKept: 900, lacks: 1, missing: 1},
		"allocated, and not free":        {free: 200, bytes: 500, kept: 800, wantKept: 500, lacks: 300, missing: 400},
		"allocated and written":          {free: 200, bytes: 500, used: 500, kept: 300, wantAvailable: 200, wantKept: 300, missing: -100},
		"reserved, and not free":         {free: 200, reserve: 300, kept: 800, wantKept: 700, lacks: 100, missing: 200},
		"twice the space is allocated":   {free: 500, overcommit: 2, bytes: 900, kept: 500, wantAvailable: 100, wantKept: 900, missing: 0},
		"its own bytes are kept, too":    {free: 400, bytes: 400, kept: 300, own: 200, wantAvailable: 200, wantKept: 300, missing: 100},
		"no more than is external":       {free: 900, kept: 500, wantAvailable: 900, wantKept: 100, missing: -800},
		"nearly no inodes":               {free: 1000, files: 1000, ffree: 49, wantAvailable: 1000, inodes: true, missing: -900},
		"no inodes":                      {free: 500, files: 1000, ffree: 1, kept: 500, wantKept: 1000, inodes: true, missing: -400},
		"no inodes, and nothing is kept": {free: 500, files: 1000, ffree: 1, inodes: true, missing: -400},
	} {
		t.Run(name, func(t *testing.T) {
			records := record.NewStore(func(string) {})
			if row.overcommit == 0 {
				row.overcommit = 1
			}
			l := NewLedger(records, row.reserve, row.overcommit)
			if row.bytes > 0 {
				records.Set(record.Record{Name: gone, State: record.Bound, Bytes: row.bytes, QuotaID: 1})
				l.metered[gone], l.sure.written[gone] = row.used, row.used
			}
			l.SetKept(row.kept)
			st := &unix.Statfs_t{Frsize: 1, Blocks: 1000, Bfree: row.free, Bavail: row.free, Files: row.files, Ffree: row.ffree}
			s := l.account(st, others{}, 0, row.own)
			bytes, inodes := s.Lacks(st)
			if s.Available != row.wantAvailable || s.Kept != row.wantKept || bytes != row.lacks || inodes != row.inodes ||
				s.Missing(100) != row.missing {
				t.Errorf("available %d, kept %d, lacks %d, inodes %v, missing %d", s.Available, s.Kept, bytes, inodes, s.Missing(100))
			}
		})
	}
}
