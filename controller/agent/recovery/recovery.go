// Package recovery plans how the PVs and claims of a node's volumes are made again, after the cluster
// lost them or after the volumes were deleted. The rules are those of controller/kube/recovery. It writes
// no object; it brings deleted volumes back to their places.
//
//	recovery.go  the plan of a volume in place
//	kept.go      deleted volumes that a pool keeps: listed, planned, undeleted, removed
package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Request names a volume, as its caller read it on the disk, and has what a person says about it.
type Request struct {
	orphans.Named
	recovery.Options
}

// Planner plans the recovery of one volume at a time.
type Planner struct {
	Client kubernetes.Interface
	Pools  *volume.Pools
	Driver string // the name of the agent's CSI driver
	// PVs makes the PV of a volume, as orphans.Checker.Restored uses it.
	PVs orphans.Restorer
}

// Volume returns what becomes of a volume, and the objects that bring it back. It changes nothing.
//
// The error is an ErrNotFound if the record does not exist or is another volume's, an ErrNotReady if
// the pool or the API server does not answer.
func (p *Planner) Volume(ctx context.Context, r Request) (recovery.Volume, error) {
	pool, rec, err := r.In(p.Pools)
	if err != nil {
		return recovery.Volume{}, err
	}
	v := describe(pool, rec)
	here, err := live.Cluster(ctx, p.Client)
	if err != nil {
		return v, err
	}
	if v.Problem, err = problem(pool, rec, here); err != nil {
		return v, err
	}
	return p.decide(ctx, pool, rec, r, v, here)
}

// decide adds the objects of a volume, and what becomes of it.
func (p *Planner) decide(ctx context.Context, pool *volume.Pool, rec record.Record, r Request, v recovery.Volume,
	here string) (recovery.Volume, error) {
	facts := recovery.Facts{Here: here, Driver: p.Driver}
	if v.Namespace != "" && v.Claim != "" && v.Problem == "" {
		if err := p.read(ctx, r.Target(v), v, &facts); err != nil {
			return v, err
		}
		if !recovery.IsBound(v, facts) {
			if err := p.restore(ctx, pool, rec, r, &v, facts.Claim); err != nil {
				return v, err
			}
		}
	}
	v.LostNamespaceUID = recovery.LostNamespace(v, facts, r.Options)
	v.Finding = recovery.Decide(v, facts, r.Options)
	switch {
	case v.Verdict != recovery.Made:
		v.Notes = nil
	case facts.Unread != "":
		v.Notes = append(v.Notes, fmt.Sprintf("the agent may not read namespace %s: check that it is the tenant's "+
			"who had the volume, and no later one of that name", r.Target(v)))
	}
	return v, nil
}

// describe returns what the record has. The name of a PV that a sidecar did not pass on is that of the
// volume.
func describe(pool *volume.Pool, r record.Record) recovery.Volume {
	v := recovery.Volume{
		Pool: pool.Path(), PoolUUID: pool.ID(), Name: r.Name, PVName: cmp.Or(r.PV, r.Name), Namespace: r.Owner.Namespace,
		Claim: r.Owner.Name, ClaimUID: r.Owner.UID, Bytes: r.Bytes, Created: r.Created, Cluster: r.Cluster,
		Policy: r.ReclaimPolicy, PVUID: r.PVUID,
	}
	if r.Claim != nil {
		v.ClaimCreated, v.NamespaceUID = r.Claim.Created, r.Claim.NamespaceUID
	}
	return v
}

// problem returns why a volume cannot be brought back whatever the API server has, "" if it can be.
func problem(pool *volume.Pool, r record.Record, here string) (string, error) {
	switch {
	case r.Ephemeral:
		return "it is an ephemeral inline volume, which no PV can name", nil
	case r.InTrash(), r.State == record.Deleting:
		return "it is in the trash, and its deletion was begun: `orphans show` prints what brings it back", nil
	case r.State == record.Creating:
		return "it is being created, or rolled back", nil
	case r.Migrating() != nil && (here == "" || r.Cluster == "" || r.Cluster == here):
		return "its PV is being replaced: the agent finishes that (docs/migration.md)", nil
	}
	v, err := pool.Get(r.Name)
	switch {
	case errors.Is(err, volume.ErrNotReady):
		return "", err
	case err != nil:
		return err.Error(), nil
	case v.Missing:
		return fmt.Sprintf("its directory %s is missing: restore it from a backup "+
			"(docs/runbooks/HPPVolumesMissing.md)", v.Path), nil
	}
	return "", nil
}

// read reads the objects of a volume's names.
func (p *Planner) read(ctx context.Context, namespace string, v recovery.Volume, f *recovery.Facts) (err error) {
	if f.PV, err = live.PV(ctx, p.Client, v.PVName); err != nil {
		return err
	}
	if f.Claim, err = live.NamedClaim(ctx, p.Client, namespace, v.Claim); err != nil {
		return err
	}
	forbidden := false
	if f.Namespace, forbidden, err = live.Namespace(ctx, p.Client, namespace); err != nil {
		return err
	} else if forbidden {
		f.Unread = "the agent may not read it"
	}
	if f.Claim == nil || f.Claim.Spec.VolumeName != "" {
		return nil
	}
	return live.EachPV(ctx, p.Client, func(pv *corev1.PersistentVolume) bool {
		if recovery.MadeFor(pv, f.Claim) {
			f.Other = pv.Name
		}
		return f.Other == ""
	})
}

// restore adds the objects of a volume, or why there are none. claim is the one of the name; nil if
// there is none.
func (p *Planner) restore(ctx context.Context, pool *volume.Pool, r record.Record, o Request, v *recovery.Volume,
	claim *corev1.PersistentVolumeClaim) error {
	classes, err := p.Client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return live.Unanswered{Request: "list storage classes", Err: err}
	}
	r.PV = v.PVName
	made := newClaim(o.Target(*v), *v, r.Claim)
	pv, err := p.PVs.Restored(pool, volume.Volume{Record: r, Path: filepath.Join(pool.Path(), r.Name)}, made,
		classes.Items)
	if err != nil {
		v.Problem = err.Error()
		return nil
	}
	pv.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	pv.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: made.Namespace,
		Name: made.Name}
	if claim != nil && claim.Status.Phase == corev1.ClaimLost {
		pv.Spec.ClaimRef.UID = claim.UID // it was bound before, and takes no other
	}
	recovery.NotePolicy(pv, v.Policy)
	recovery.NoteNamespace(pv, *v, o.Options)
	v.Objects = &recovery.Objects{PV: pv, Claim: made}
	v.Notes = notes(r, made, classes.Items)
	return nil
}

// unknownBytes is what a claim requests for a volume of unknown size.
const unknownBytes = 1 << 30

// newClaim returns the claim of a volume, with what was recorded of it.
func newClaim(namespace string, v recovery.Volume, had *record.Claim) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v.Claim},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: v.PVName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(cmp.Or(v.Bytes, unknownBytes), resource.BinarySI)}},
		},
	}
	contract.Restore(claim, had)
	return claim
}

// notes returns what the objects lack of those that the volume had.
func notes(r record.Record, claim *corev1.PersistentVolumeClaim, classes []storagev1.StorageClass) (all []string) {
	class := contract.Of(claim)
	there := false
	for i := range classes {
		there = there || classes[i].Name == class
	}
	switch {
	case r.Claim == nil:
		all = append(all, fmt.Sprintf("its record has no class, access modes and labels: class %q is a guess", class))
	case len(r.Claim.Omitted) > 0:
		all = append(all, "too long for the record, and missing: "+strings.Join(r.Claim.Omitted, ", "))
	}
	if class != "" && !there {
		all = append(all, fmt.Sprintf("class %q does not exist: the volume cannot grow until it does", class))
	}
	if r.Bytes == 0 {
		all = append(all, fmt.Sprintf("its size is not known, because its directory was adopted: the claim requests %s",
			claim.Spec.Resources.Requests.Storage()))
	}
	return all
}
