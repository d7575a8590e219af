package orphans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

// unsaved is how long the PV of a new volume is given to appear. The claim loop
// undoes what is empty and was abandoned long before.
const unsaved = 5 * time.Minute

// reasonMissing is the reason of events about PVs without a directory.
const reasonMissing = "VolumeMissing"

// findings are the orphans of one pool.
type findings struct {
	looked  bool // the pool was ready
	volumes []volume.Record
	// directories have no record, so they are nobody's to remove.
	directories []string
	pvs         []string // names
}

// place is where a PV says that its volume is.
type place struct {
	pool *volume.Pool
	name string
}

// seen are this node's PVs as the claim loop knows them.
type seen struct {
	all    []*corev1.PersistentVolume
	named  map[string]bool // by PV name
	places map[place]bool
}

func (o *Checker) see() seen {
	s := seen{all: o.Loop.PVs(), named: map[string]bool{}, places: map[place]bool{}}
	for _, pv := range s.all {
		s.named[pv.Name] = true
		pool, name := o.Loop.Names(pv)
		s.places[place{pool, name}] = true
	}
	return s
}

// find returns the orphans of a pool, as far as could be told; the error says
// what could not.
func (o *Checker) find(ctx context.Context, pool *volume.Pool, s seen) (f findings, err error) {
	volumes, err := pool.List()
	if err != nil {
		return f, err
	}
	unrecorded, err := pool.Unrecorded()
	if err != nil {
		return f, err
	}
	f.looked = true
	var errs []error
	for _, v := range volumes {
		r, err := o.judge(ctx, pool, v, s)
		if errs = append(errs, err); r.Orphan.Why != "" {
			f.volumes = append(f.volumes, r)
		}
	}
	for _, u := range unrecorded {
		is, err := o.leftover(ctx, pool, u, s)
		if errs = append(errs, err); is {
			f.directories = append(f.directories, u.Name)
		}
	}
	for _, pv := range s.all {
		is, err := o.missing(ctx, pool, pv)
		if errs = append(errs, err); is {
			f.pvs = append(f.pvs, pv.Name)
		}
	}
	return f, errors.Join(errs...)
}

// pvOf is the PV of a volume. A sidecar need not have told its name; it is then
// the volume's, as the sidecar makes both from one.
func pvOf(r volume.Record) string { return cmp.Or(r.PV, r.Name) }

// judge notes on a volume's record whether its PV is gone, and returns it. The
// record of an inline volume is returned as it is.
func (o *Checker) judge(ctx context.Context, pool *volume.Pool, v volume.Volume, s seen) (volume.Record, error) {
	if v.Ephemeral || v.Held() != nil {
		// No PV ever names it, and the CSI driver notes whether its pod is gone; or
		// no PV does for a moment.
		return v.Record, nil
	}
	why := ""
	if !s.named[pvOf(v.Record)] && !s.places[place{pool, v.Name}] {
		if v.State == volume.Ready && time.Since(v.Created) < unsaved {
			return v.Record, nil
		}
		var err error
		if why, err = o.lonely(ctx, v.Record); err != nil {
			return v.Record, err
		}
	}
	return o.note(place{pool, v.Name}, v.Record, why)
}

// lonely asks the API server itself what is gone of those who want the volume;
// "" where none of it is, or its PV may still come.
func (o *Checker) lonely(ctx context.Context, r volume.Record) (why string, err error) {
	if pv, err := live.PV(ctx, o.Client, pvOf(r)); pv != nil || err != nil {
		return "", err
	}
	if r.Owner.Namespace == "" || r.Owner.Name == "" {
		return fmt.Sprintf("PV %s is gone; its claim is not known", pvOf(r)), nil
	}
	wanted, err := o.claimed(ctx, r)
	claim := r.Owner.Namespace + "/" + r.Owner.Name
	switch {
	case err != nil, wanted && r.State == volume.Ready:
		return "", err
	case wanted:
		return fmt.Sprintf("PV %s is gone; its claim %s is still there", pvOf(r), claim), nil
	case r.State == volume.Ready:
		return fmt.Sprintf("PV %s was never saved, and claim %s is gone; the volume holds data", pvOf(r), claim), nil
	}
	return fmt.Sprintf("PV %s and its claim %s are gone", pvOf(r), claim), nil
}

// claimed asks the API server whether a claim wants the volume: its owner, or one
// of the same name that asks for the volume's PV, as backups restore it.
func (o *Checker) claimed(ctx context.Context, r volume.Record) (bool, error) {
	claim, err := live.NamedClaim(ctx, o.Client, r.Owner.Namespace, r.Owner.Name)
	return claim != nil && (string(claim.UID) == r.Owner.UID || claim.Spec.VolumeName == pvOf(r)), err
}

// leftover reports whether a directory without a record is one that a provisioner
// made, and that no PV names. What else is there is the administrator's.
func (o *Checker) leftover(ctx context.Context, pool *volume.Pool, u volume.Unrecorded, s seen) (bool, error) {
	name, is := class.Provisioned(u.Name)
	if !is || u.InUse || s.places[place{pool, u.Name}] {
		return false, nil
	}
	if name == "" {
		return true, nil
	}
	pv, err := live.PV(ctx, o.Client, name)
	return pv == nil && err == nil, err
}

// missing reports whether a PV names a volume of the pool whose directory is not
// there, and says so on the PV. Where no record is there either, the claim loop
// says it, which cannot adopt the volume.
func (o *Checker) missing(ctx context.Context, pool *volume.Pool, pv *corev1.PersistentVolume) (bool, error) {
	at, name := o.Loop.Names(pv)
	if at != pool || class.Leaving(pv) {
		return false, nil
	}
	v, err := pool.Get(name)
	recorded := err == nil
	switch {
	case errors.Is(err, volume.ErrNotFound):
		if there, err := pool.HasDirectory(name); there || err != nil {
			return false, err
		}
	case errors.Is(err, volume.ErrDamaged), errors.Is(err, volume.ErrInvalid):
		return false, nil // which the claim loop says
	case err != nil:
		return false, err
	case !v.Missing:
		return false, nil
	}
	// What was seen may be older than a deletion that is under way.
	now, err := live.PV(ctx, o.Client, pv.Name)
	if now == nil || err != nil || now.UID != pv.UID || class.Leaving(now) {
		return false, err
	}
	if recorded {
		o.Events.Warn(ctx, events.PV(now), "missing", reasonMissing, fmt.Sprintf("its directory %s is not on node %s: somebody removed it; "+
			"bring it back from a backup, or delete the claim", v.Path, o.Node.Name))
	}
	return true, nil
}
