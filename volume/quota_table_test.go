//go:build disk || vm

package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// limitTable has the tests of pools on every filesystem with quotas.
func limitTable(t *testing.T, d quotaDisk) {
	d.pool(t) // turns on what is off
	for name, test := range map[string]func(*testing.T, quotaDisk){
		"life": limitLife, "policies": limitPolicies, "crash": limitCrash, "match": limitMatch,
		"expand": limitExpand, "concurrent": limitConcurrent, "space": limitSpace,
		"stray": limitStray, "shared": limitShared, "copied": limitCopied, "reflinks": limitReflinks,
		"undelete": limitUndelete, "kept full": limitKeptFull, "copy links": limitCopyLinks, "copy full": limitCopyFull, "copy beyond": limitCopyBeyond,
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

func limitLife(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	v, err := p.Create(limited("v", 8*mib))
	if err != nil || !v.QuotaEnforced || v.NotEnforced != "" || v.QuotaID == 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	if st, err := os.Stat(v.Path); err != nil || st.Mode().Perm() != 0o777 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	mkdir(t, v.Path+"/deep/er")
	if n, err := pour(t, v.Path+"/f", 64*mib); !errors.Is(err, d.full) || n > 8*mib || n < 6*mib {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	fd := dirFD(t, v.Path)
	ok(t, unix.Syncfs(fd))
	unix.Close(fd)
	if u, err := p.QuotaUsage("v"); err != nil || u.Bytes < 6*mib || u.Limit.Bytes != 8*mib {
		t.Errorf("usage %+v, %v", u, err)
	}
	r, err := inspect.Read(p.Path())
	if err != nil || r.Pool.Quotas != string(d.method) || len(r.Volumes) != 1 || r.Volumes[0].Quota != 8*mib || r.Volumes[0].Used < 6*mib {
		t.Errorf("inspect %+v, %v", r, err)
	}
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	consistent(t, p)
	asRecorded(t, p)
	if v, err := p.Create(limited("v", 8*mib)); err != nil || !v.QuotaEnforced {
		t.Errorf("again: %+v, %v", v, err)
	}
	ok(t, p.Delete("v"))
	consistent(t, p)
	purge(t, p)
	// The smallest there is, and one without data.
	for _, bytes := range []int64{1, mib} {
		_, err = p.Create(limited("w", bytes))
		ok(t, err)
		ok(t, p.RollBack("w"))
	}
	d.settle()
	purge(t, p)
	d.swept(t)
}

func limitPolicies(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	none, many := spec("none", mib), spec("many", mib)
	none.Quota, many.Inodes = record.QuotaNone, 10
	v, err := p.Create(none)
	if err != nil || v.QuotaEnforced || v.QuotaID != 0 || v.NotEnforced == "" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := inForce(v.Path); !errors.Is(err, quota.ErrUnlimited) {
		t.Errorf("with a limit: %v", err)
	}
	_, err = p.QuotaUsage("none")
	is(t, err, volume.ErrNoQuotas)
	if v, err = p.Create(many); err != nil || !v.QuotaEnforced || (v.NotEnforced == "") != d.inodes {
		t.Errorf("%+v, %v", v, err)
	}
	if u, err := p.QuotaUsage("many"); err != nil || d.inodes && u.Limit.Inodes != 10 {
		t.Errorf("%+v, %v", u, err)
	}
	must := limited("must", mib)
	must.Inodes = 10
	if _, err = p.Create(must); !d.inodes {
		is(t, err, volume.ErrNoQuotas)
		if there(filepath.Join(p.Path(), records, "must")) {
			t.Error("it left a record")
		}
	} else {
		ok(t, err)
	}
	mkdir(t, filepath.Join(p.Path(), "old"))
	old := limited("old", mib)
	if v, err = p.Adopt(old); err != nil || v.QuotaEnforced || v.NotEnforced == "" {
		t.Errorf("%+v, %v", v, err)
	}
	// What is not as asked for is a conflict.
	for _, change := range []func(*volume.Spec){
		func(s *volume.Spec) { s.Quota = record.QuotaRequired }, func(s *volume.Spec) { s.Inodes = 11 },
	} {
		s := many
		change(&s)
		_, err = p.Create(s)
		is(t, err, volume.ErrConflict)
	}
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	for name, want := range map[string]bool{"none": false, "old": false, "many": true} {
		if v, err := p.Get(name); err != nil || v.QuotaEnforced != want {
			t.Errorf("%+v, %v", v, err)
		}
	}
	consistent(t, p)
}

// What a start finds to be otherwise than recorded.
func limitMatch(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	v, err := p.Create(limited("v", 4*mib))
	ok(t, err)
	full, err := p.Create(limited("full", 4*mib))
	ok(t, err)
	ok(t, p.Close())
	e := func(path string, id uint64, bytes int64) {
		fd := dirFD(t, path)
		defer unix.Close(fd)
		e, err := quota.Probe(fd, quota.Hooks{})
		ok(t, err)
		_, err = e.Set(fd, id, quota.Limit{Bytes: bytes})
		ok(t, err)
	}
	e(v.Path, v.QuotaID, 2*mib)
	e(full.Path, full.QuotaID, 16*mib)
	_, err = pour(t, full.Path+"/f", 8*mib)
	ok(t, err)
	fd := dirFD(t, v.Path)
	ok(t, unix.Syncfs(fd))
	unix.Close(fd)
	p = opened(t, volume.Config{Path: p.Path()})
	if u, err := p.QuotaUsage("v"); err != nil || u.Limit.Bytes != 4*mib || onDisk(t, p, "v").QuotaID != v.QuotaID {
		t.Errorf("%+v, %v; ID %d, was %d", u, err, onDisk(t, p, "v").QuotaID, v.QuotaID)
	}
	if w := p.Warnings(); len(w) != 1 || !strings.Contains(w[0], "volume full is not as recorded") {
		t.Errorf("warnings %q", w)
	}
	forgot := v.Record
	forgot.QuotaID = 0
	// What is adopted stays as it is.
	forgot.Adopted, forgot.State, forgot.Bytes = true, record.Bound, mib
	ok(t, p.Close())
	recordFile(t, p.Path(), forgot)
	p = opened(t, volume.Config{Path: p.Path()})
	if u, err := inForce(v.Path); err != nil || u.Limit.Bytes != 4*mib || onDisk(t, p, "v").QuotaID != 0 {
		t.Errorf("%+v, %v", u, err)
	}
	ok(t, p.Delete("v"))
	ok(t, p.Delete("full"))
	purge(t, p)
}
