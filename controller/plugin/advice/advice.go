// Package advice has the texts of the plugin that ask for something that can destroy data, each as a
// function whose arguments prove that it may be given, or as a constant that destroys nothing. Where
// they do not, the text names what to do instead. A test of the module lists the destructive texts of
// all processes and pages.
//
//	lost.go    a claim whose PV does not exist
//	advice.go  everything else
package advice

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Pasteable reports whether people may paste a text into a shell as a part of a command: a shell takes it as
// it is, and no program takes it for a flag. Tenants choose some names, and programs print others, of which
// the API server has checked none.
func Pasteable(text string) bool {
	return text != "" && text[0] != '-' && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/=+@,", r)
	})
}

// CreateAgain asks to create a claim again with another specification. A claim without a PV has no
// data; for one with a PV it returns "".
func CreateAgain(claim *corev1.PersistentVolumeClaim, with string) string {
	if claim.Spec.VolumeName != "" {
		return ""
	}
	return "create the claim again with " + with
}

// The texts whose only precondition is in their words.
const (
	// ReplaceClass is about a class. Classes have no data: volumes and their PVs stay as they are.
	ReplaceClass = "a class cannot be edited: delete it and create it again; its volumes stay"
	// MakeRoom is about a pool that is nearly full.
	MakeRoom = "add a disk, or delete claims whose data is not needed any more"
	// MoreInodes is about a filesystem without free inodes. To make a filesystem again destroys it.
	MoreInodes = "remove small files, or move volumes to a filesystem with more inodes"
)

// ConfirmDisk is about a device that its agent cannot prove to be that of a PV. The agent prints the
// annotation only if nothing contradicts it; it is "" otherwise.
func ConfirmDisk(d agents.Device) string {
	if !Pasteable(d.Confirm) || !Pasteable(d.PV) {
		return ""
	}
	return "if it is the disk of the PV: kubectl annotate --overwrite pv " + d.PV + " " + d.Confirm
}

// EndPod is about a pod that uses a claim which was deleted, and says what goes with it. The PV is
// nil if it was not read.
func EndPod(claim *corev1.PersistentVolumeClaim, pod string, pv *corev1.PersistentVolume) string {
	if claim.DeletionTimestamp == nil {
		return ""
	}
	do := fmt.Sprintf("when no pod uses the claim, Kubernetes removes it: delete pod %s to have that", pod)
	switch {
	case claim.Spec.VolumeName == "":
		return do
	case pv == nil:
		return do + "; the data goes, too, unless the reclaim policy of the PV is Retain"
	case pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
		return do + "; the PV and its data stay, by the reclaim policy Retain"
	}
	return do + "; " + keepFirst(pv)
}

// keepFirst says that the data of the PV goes with its claim, and how to keep it.
func keepFirst(pv *corev1.PersistentVolume) string {
	return fmt.Sprintf("the data of PV %s goes, too. To keep it, first run: kubectl patch pv %[1]s "+
		`-p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`, pv.Name)
}

// Deleted is about a PV that was deleted while its claim lives, and says what the end of the claim does.
func Deleted(pv *corev1.PersistentVolume) string {
	const do = "Kubernetes keeps the PV until the claim is deleted"
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return do + "; the data then stays in its directory, by the reclaim policy Retain: see Orphans in docs/operations.md"
	}
	return do + "; " + keepFirst(pv)
}

// FreeName is about a claim that has the name for which a deleted volume comes back, and a volume of its
// own. The PV is nil if it was not read: without it the text gives nothing up.
func FreeName(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	do := "decide which data is wanted"
	if claim.DeletionTimestamp != nil || pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return do + ", and undelete once the name is free"
	}
	do += fmt.Sprintf(". If it is the deleted volume: scale the workload down (a StatefulSet makes its claims again at "+
		"once), then delete the claim %s/%s, and undelete before you scale up", claim.Namespace, claim.Name)
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return do + "; the PV and data of that claim stay, by the reclaim policy Retain"
	}
	return do + "; " + keepFirst(pv)
}

// Missing is about a volume whose directory is not at its place. Deleting the claim gives up nothing
// only if the pool is open, so that it is the pool's own disk, the volume is not set aside in the
// trash, and no other pool has the volume. unread is which pools were not read, or why; "" if all were.
func Missing(r inspect.Report, v inspect.Volume, elsewhere bool, unread string) string {
	switch {
	case aside(v):
		return "it is in the trash of the pool, set aside: see Orphans in docs/operations.md"
	case elsewhere:
		return "another pool has a volume of this PV: see docs/runbooks/HPPVolumesMissing.md before you change anything"
	case unread != "":
		return "another pool may have it, and not all were read (" + unread + "): see docs/runbooks/HPPVolumesMissing.md " +
			"before you change anything"
	case !r.Pool.Held:
		return "no process owns the pool, so its disk may not be mounted: see docs/runbooks/HPPPoolNotReady.md"
	}
	return "restore it from a backup, or delete the claim if the data is not needed"
}

// aside reports whether the directory of a volume is in the trash, and its deletion is not decided.
func aside(v inspect.Volume) bool { return v.Missing && v.State == record.Deleting }
