package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// job is a migration with an open journal.
type job struct {
	pool    *volume.Pool
	volume  string // the directory's name
	step    record.MigrationStep
	to      string
	stopped string                   // why it stopped at the last attempt, or ""
	old     *corev1.PersistentVolume // as it was when the migration began
	new     *corev1.PersistentVolume // as it is created
	// planned is the source of the new PV at the beginning; the pool may have another path since.
	planned  corev1.PersistentVolumeSource
	stranded bool // the agent does not serve the new PV, and cannot go back
	touched  bool // the claim was annotated, or may not be
	retained bool // the old PV got the policy Retain in this run
	restored bool // the new PV got the policy of the old one in this run
}

func (j *job) advance(by record.MigrationChange) error { return j.pool.AdvanceMigration(j.volume, by) }

// readJob reads the journal of a volume that is being migrated. Another version or a person
// may have written it.
func readJob(pool *volume.Pool, r record.Record) (*job, error) {
	name, journal := r.Name, r.Migration
	j := &job{pool: pool, volume: name, step: journal.Step, to: journal.To, stopped: journal.Stopped}
	var errs [2]error
	j.old, errs[0] = parsePV(journal.Old)
	j.new, errs[1] = parsePV(journal.New)
	err := errors.Join(errs[:]...)
	switch {
	case err != nil:
	case j.old.Name != r.PV || j.new.Name != j.old.Name:
		err = fmt.Errorf("its PVs are %q and %q, and the volume's is %q", j.old.Name, j.new.Name, r.PV)
	case j.old.UID == "":
		err = errors.New("its old PV has no UID")
	case j.to != toCSI && j.to != toHostPath:
		err = fmt.Errorf("it leads to %q, and must to %q or %q", j.to, toCSI, toHostPath)
	default:
		j.planned = source(j.new)
		return j, nil
	}
	return nil, fmt.Errorf("the journal of volume %s cannot be read: %w; stop the agent and correct the key "+
		"migration of %s, or remove it if its PV is there; see docs/migration.md", name, err, recordPath(pool, name))
}

// recordPath returns the path of a volume's record, for people.
func recordPath(pool *volume.Pool, name string) string {
	return filepath.Join(pool.Path(), pooldir.PrivateName, pooldir.RecordsName, name)
}

func parsePV(data []byte) (*corev1.PersistentVolume, error) {
	pv := &corev1.PersistentVolume{}
	if err := json.Unmarshal(data, pv); err != nil {
		return nil, err
	}
	if pv.Name == "" {
		return nil, errors.New("it has no PV")
	}
	return pv, nil
}

// journalOf returns the journal of a migration that begins.
func journalOf(to string, old, next *corev1.PersistentVolume) (m record.Migration, err error) {
	m.To = to
	if m.Old, err = encodePV(old); err == nil {
		m.New, err = encodePV(next)
	}
	return m, err
}

func encodePV(pv *corev1.PersistentVolume) ([]byte, error) {
	pv = pv.DeepCopy()
	pv.ManagedFields = nil
	pv.APIVersion, pv.Kind = "v1", "PersistentVolume"
	return json.Marshal(pv)
}

// isNew reports whether a PV is the one that this migration created: it names the old one's UID,
// and has the new source, of now or of the beginning. It may have got a claim. After the cutover
// isStripped knows it, too.
func (j *job) isNew(pv *corev1.PersistentVolume) bool {
	has := source(pv)
	return pv.UID != j.old.UID &&
		(pv.Annotations[contract.AnnReplaces] == string(j.old.UID) ||
			j.step == record.MigrationCutover && j.isStripped(pv)) &&
		(apiequality.Semantic.DeepEqual(has, source(j.new)) || apiequality.Semantic.DeepEqual(has, j.planned)) &&
		(contract.ClaimUID(j.new) == "" || contract.ClaimUID(pv) == contract.ClaimUID(j.new))
}

// isStripped reports whether a PV may be the new one although it names no former PV, because a
// webhook took the annotation away: it is the claim's for which the new PV was made.
func (j *job) isStripped(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[contract.AnnReplaces] == "" && contract.ClaimUID(j.new) != "" &&
		contract.ClaimUID(pv) == contract.ClaimUID(j.new)
}

// policy returns the policy that the new PV gets at the end, and whether it has it already. That of
// a PV without annotations is in the journal alone.
func (j *job) policy(pv *corev1.PersistentVolume) (policy corev1.PersistentVolumeReclaimPolicy, has bool) {
	if j.isStripped(pv) {
		policy = contract.Policy(j.new)
		return policy, pv.Annotations[contract.AnnPolicy] == "" && pv.Spec.PersistentVolumeReclaimPolicy == policy
	}
	return contract.Policy(pv), pv.Annotations[contract.AnnPolicy] == ""
}

// source returns a PV's source; as in the API server, a hostPath without a type has the empty one.
func source(pv *corev1.PersistentVolume) corev1.PersistentVolumeSource {
	s := *pv.Spec.PersistentVolumeSource.DeepCopy()
	if s.HostPath != nil && s.HostPath.Type == nil {
		s.HostPath.Type = new(corev1.HostPathType)
	}
	return s
}

// edited reports whether a PV was changed since it was read in a way that the new PV would lack. It
// ignores the reclaim policy, which the migration changes, and finalizers.
func edited(before, now *corev1.PersistentVolume) bool {
	plain := func(pv *corev1.PersistentVolume) (corev1.PersistentVolumeSpec, map[string]string) {
		spec, annotations := *pv.Spec.DeepCopy(), maps.Clone(pv.Annotations)
		delete(annotations, contract.AnnPolicy)
		spec.PersistentVolumeReclaimPolicy = contract.Policy(pv)
		if spec.ClaimRef != nil {
			spec.ClaimRef.ResourceVersion = ""
		}
		return spec, annotations
	}
	a, inA := plain(before)
	b, inB := plain(now)
	return !apiequality.Semantic.DeepEqual(a, b) || !maps.Equal(inA, inB) || !maps.Equal(before.Labels, now.Labels) ||
		!apiequality.Semantic.DeepEqual(before.OwnerReferences, now.OwnerReferences)
}

// removableFinalizers are the finalizers that a migration may remove: they prevent the
// deletion of a PV, which a migration does on purpose.
var removableFinalizers = []string{"kubernetes.io/pv-protection", contract.Finalizer}

// otherFinalizers returns the finalizers of a PV that a migration may not remove.
func otherFinalizers(pv *corev1.PersistentVolume) []string {
	removable := func(f string) bool { return slices.Contains(removableFinalizers, f) }
	return slices.DeleteFunc(slices.Clone(pv.Finalizers), removable)
}
