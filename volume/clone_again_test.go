package volume_test

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A job that failed keeps no other request waiting: its claim may have changed, and no one asks for the
// error any more.
func TestCloneAfterTheFailureOfAnother(t *testing.T) {
	p, reached, release := held(t, "clone.entry")
	sourceIn(t, p)
	_, err := p.Clone(cloneOf(p, spec("c", gib)))
	is(t, err, volume.ErrCloning)
	<-reached
	j, _ := p.CloneJob("c")
	ok(t, p.Pin("v", func(volume.Pinned) error { return nil })) // a pod begins to use the source
	release()
	<-j.Ended
	other := cloneOf(p, spec("c", 2*gib))
	if v, err := awaited(p, other); err != nil || v.Bytes != 2*gib {
		t.Errorf("%d bytes, %v", v.Bytes, err)
	}
	consistent(t, p)
}

// The caller learns how a job ended, also if Clone itself returned the volume.
func TestCloneSaysHowItEnded(t *testing.T) {
	p := newPool(t)
	sourceIn(t, p)

	s := cloneOf(p, spec("c", gib))
	ended := make(chan volume.CloneJob, 2)
	s.Ended = func(j volume.CloneJob) { ended <- j }
	for range 2 {
		_, err := awaited(p, s)
		ok(t, err)
	}
	if j := <-ended; j.Err != nil || j.Spec.Name != "c" {
		t.Errorf("%+v", j)
	}
	if len(ended) > 0 {
		t.Error("it ended twice")
	}
}

// A name is unique among pools, also that of a volume which one of them is making.
func TestCloneThatAnotherPoolMakes(t *testing.T) {
	pools, from, to, reached, release := twoPools(t, "clone.entry")
	s := cloneAcross(from, spec("c", gib))
	_, err := pools.Clone(to, s)
	is(t, err, volume.ErrCloning)
	<-reached
	_, err = pools.Clone(from, s)
	is(t, err, volume.ErrCloning)
	_, err = pools.Create(from, spec("c", gib))
	is(t, err, volume.ErrCloning)
	release()
	_, err = awaited(to, s)
	ok(t, err)
	_, err = pools.Clone(from, s)
	is(t, err, volume.ErrConflict)
	consistent(t, from)
	consistent(t, to)
}
