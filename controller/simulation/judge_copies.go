package simulation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// fillFiles are what a pod writes beside dataFile, so that a copy takes a while.
var fillFiles = []string{"fill-1", "fill-2", "fill-3", "fill-4"}

// filled is the content of each of these files.
func filled(mark string) string { return strings.Repeat(mark+"\n", (64<<10)/(len(mark)+1)) }

// fill writes those files into the volume of a claim, as its pod does. It returns false if the claim has
// no volume in place, or one that is filled.
func (j *judge) fill(claim string) bool {
	v := j.volumeOfClaim(claim)
	if v == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if v.mark == "" || v.fill != "" || v.wanted != "" || v.handed || !j.inPlace(v) {
		return false
	}
	for _, name := range fillFiles {
		must(os.WriteFile(filepath.Join(j.place(v), name), []byte(filled(v.mark)), 0o644))
	}
	v.fill, v.fillAt = v.mark, time.Now()
	return true
}

// lives follows which claims exist. The caller holds the lock.
func (j *judge) lives(x apiserver.Write) {
	uid := types.UID(field(x.New, "metadata", "uid"))
	if x.New == nil {
		j.ended[types.UID(field(x.Old, "metadata", "uid"))] = time.Now()
		return
	}
	delete(j.ended, uid)
	if j.made[uid].IsZero() {
		j.made[uid] = time.Now()
	}
}

// copied judges what a copy has when its pod first starts, and has the pod write its own. It does nothing
// for a claim that is no copy, or whose pod has written. The caller holds the lock.
func (j *judge) copied(v *volume, claim *corev1.PersistentVolumeClaim) {
	from, is := contract.CopiedClaim(claim)
	if !is || v.mark != "" || v.claim != claim.UID {
		return
	}
	file := filepath.Join(j.place(v), dataFile)
	have, err := os.ReadFile(file)
	source, original := j.recordedSource(v), j.ofMark(string(have))
	switch {
	case err != nil && j.writtenBefore(source, claim):
		j.blameLocked("COPY", "the copy %s has not the data of claim %s", claim.Name, from.Name)
	case err != nil:
	case original == nil || original.name != from.String() && !original.handed:
		j.blameLocked("COPY", "the copy %s of claim %s has the data of another", claim.Name, from.Name)
	case j.goneBefore(original, claim):
		j.blameLocked("COPY", "the copy %s has the data of a claim %s that was gone before the copy was asked for", claim.Name, from.Name)
	case source != "" && original.claim != source && original.mark != string(source) && !original.handed:
		j.blameLocked("COPY", "the copy %s, whose record has claim %s as its source, has the data of claim %s", claim.Name, source, original.claim)
	case original.fill != "" && original.fillAt.Before(j.made[claim.UID]) && !j.hasFill(v, original.fill):
		j.blameLocked("COPY", "the copy %s has a part of the data of claim %s", claim.Name, from.Name)
	}
	if original != nil && j.hasFill(v, original.fill) {
		v.fill, v.fillAt = original.fill, time.Now()
	}
	if os.WriteFile(file, []byte(claim.UID), 0o644) == nil {
		v.mark = string(claim.UID)
	}
}

// recordedSource is the UID of the claim whose volume was copied, as the record of the copy has it; "" if
// there is none.
func (j *judge) recordedSource(v *volume) types.UID {
	var record struct{ Source struct{ UID types.UID } }
	data, err := os.ReadFile(filepath.Join(filepath.Dir(j.place(v)), ".hostpath-provisioner/records", v.dir))
	if err != nil || json.Unmarshal(data, &record) != nil {
		return ""
	}
	return record.Source.UID
}

// writtenBefore reports whether the volume of the claim with that UID was written before the claim of its
// copy was made.
func (j *judge) writtenBefore(source types.UID, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(j.volumes, func(v *volume) bool {
		return source != "" && v.claim == source && v.mark != "" && v.bound.Before(j.made[claim.UID])
	})
}

// goneBefore reports whether the claim of a volume was gone when that of its copy was made.
func (j *judge) goneBefore(original *volume, claim *corev1.PersistentVolumeClaim) bool {
	ended := j.ended[original.claim]
	return !ended.IsZero() && ended.Before(j.made[claim.UID]) && !original.handed && !original.recovered && !j.older
}

func (j *judge) hasFill(v *volume, fill string) bool {
	return fill != "" && !slices.ContainsFunc(fillFiles, func(name string) bool {
		data, err := os.ReadFile(filepath.Join(j.place(v), name))
		return err != nil || string(data) != filled(fill)
	})
}

// afterCopies judges the copies an hour after the last fault.
func (w *World) afterCopies() {
	warned := map[types.UID]bool{}
	for _, e := range must1(w.god.CoreV1().Events("").List(ctx, metav1.ListOptions{})).Items {
		warned[e.InvolvedObject.UID] = warned[e.InvolvedObject.UID] || e.Type == corev1.EventTypeWarning
	}
	claims := must1(w.god.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})).Items
	for _, c := range claims {
		from, is := contract.CopiedClaim(&c)
		switch {
		case !is || c.Status.Phase != corev1.ClaimPending || c.DeletionTimestamp != nil || c.Spec.VolumeName != "":
		case w.copyable(&c, claims):
			w.judge.blame("COPIED", "the copy %s is not Bound, and nothing is wrong with claim %s", c.Name, from.Name)
		case !warned[c.UID] && !w.told(&c) && !w.uninstalled():
			w.judge.blame("SILENT", "the copy %s of claim %s is %s, without a warning%s", c.Name, from.Name, c.Status.Phase, w.beside(&c))
		}
	}
	for _, n := range w.nodes {
		if n.runs() && n.agent.agent != nil && len(n.away) == 0 && n.second == nil {
			w.leftOfCopies(n, claims)
		}
	}
}

// copyable reports whether the agent of a node has the source of a claim, and nothing keeps it from making
// the copy and saving its PV.
func (w *World) copyable(c *corev1.PersistentVolumeClaim, claims []corev1.PersistentVolumeClaim) bool {
	from, _ := contract.CopiedClaim(c)
	at := slices.IndexFunc(claims, func(s corev1.PersistentVolumeClaim) bool { return s.Namespace == from.Namespace && s.Name == from.Name })
	class, err := w.god.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	if at < 0 || err != nil || class.Provisioner != contract.CSIProvisioner || w.uninstalled() || w.faults.hooked() {
		return false
	}
	source := &claims[at]
	pv, err := w.god.CoreV1().PersistentVolumes().Get(ctx, source.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || source.DeletionTimestamp != nil || source.Status.Phase != corev1.ClaimBound || contract.Bytes(source) > contract.Bytes(c) ||
		contract.Bytes(c) >= contract.WholeBytes(&noDisk) ||
		pv.DeletionTimestamp != nil || pv.Spec.CSI == nil || pv.Status.Phase != corev1.VolumeBound || contract.ClaimUID(pv) != string(source.UID) {
		return false
	}
	v := w.judge.volumeOfPV(pv.Name)
	n, asked := (*node)(nil), w.node(c.Labels[wantsNode])
	if v != nil {
		n = w.node(v.node)
	}
	return n != nil && asked != nil && asked.absent.IsZero() && n.runs() && n.absent.IsZero() && n.second == nil && len(n.away) == 0 && !n.renamed &&
		!v.edited && !v.handed && !v.foreign && v.claim == source.UID && w.judge.holds(v) &&
		!slices.ContainsFunc(n.flags, func(f string) bool { return strings.HasPrefix(f, "--provision") || strings.HasPrefix(f, "--migrate") })
}

// holds reports whether the data of a volume is in place.
func (j *judge) holds(v *volume) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inPlace(v)
}

// leftOfCopies judges what copies have left on the disks of a node: nothing in staging, and no copy that
// never had a PV and whose claim is gone.
func (w *World) leftOfCopies(n *node, claims []corev1.PersistentVolumeClaim) {
	for _, pool := range n.agent.agent.Recovery().Pools.All() {
		entries, _ := os.ReadDir(filepath.Join(pool.Path(), ".hostpath-provisioner/staging"))
		for _, e := range entries {
			w.judge.blame("COPIED", "%s is in staging in pool %s of %s", e.Name(), pool.Name(), n.name)
		}
		volumes, err := pool.List()
		if err != nil {
			continue
		}
		for _, v := range volumes {
			_, err := w.god.CoreV1().PersistentVolumes().Get(ctx, v.PV, metav1.GetOptions{})
			alive := slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return string(c.UID) == v.Owner.UID })
			if v.Source != nil && v.Unused() && !alive && err != nil {
				w.judge.blame("COPIED", "the copy %s in pool %s of %s has no PV, and its claim is gone", v.Name, pool.Name(), n.name)
			}
		}
	}
}
