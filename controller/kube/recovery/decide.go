package recovery

import (
	"cmp"
	"fmt"
	"path"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Facts are what the API server has of the names in a volume's record, as one client read it.
type Facts struct {
	Here      string                        // the UID of the cluster; "" if it is not known
	Driver    string                        // the name of the agent's CSI driver; "" is that of the project
	PV        *corev1.PersistentVolume      // of the recorded name; nil if there is none
	Claim     *corev1.PersistentVolumeClaim // of Target; nil if there is none
	Namespace *corev1.Namespace             // of Target; nil if there is none
	// Unread is why Namespace was not read, "" if it was. The agent may not read it.
	Unread string
	// Other is the name of a PV that was made for Claim; "" if there is none.
	Other string
}

// Options are what a person says about records that name another cluster or another tenant.
type Options struct {
	// FromCluster is the UID of the cluster that was lost.
	FromCluster string `json:"fromCluster,omitempty"`
	// ToNamespace gets the claims in place of the recorded namespace.
	ToNamespace string `json:"toNamespace,omitempty"`
}

// AddFlags adds the flags of the options to a command.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.FromCluster, "from-cluster", "", "UID of the lost cluster whose volumes are meant; the plan has it")
	flags.StringVar(&o.ToNamespace, "to-namespace", "", "namespace of the claims, in place of the recorded one")
}

// Args returns the arguments by which a command with these flags gets the same options.
func (o Options) Args() []string {
	var args []string
	if o.FromCluster != "" {
		args = append(args, "--from-cluster="+o.FromCluster)
	}
	if o.ToNamespace != "" {
		args = append(args, "--to-namespace="+o.ToNamespace)
	}
	return args
}

// Target returns the namespace of the volume's claim.
func (o Options) Target(v Volume) string {
	if o.ToNamespace != "" && v.Namespace != "" {
		return o.ToNamespace
	}
	return v.Namespace
}

// Decide returns what becomes of a volume. What is not known leaves it.
func Decide(v Volume, f Facts, o Options) Finding {
	switch {
	case v.Problem != "" || !IsBound(v, f):
	case v.Kept == "":
		return Finding{Verdict: There}
	case isItsPV(f.PV, v):
		return Finding{Verdict: Made} // the data goes back, and no object is written
	}
	for _, check := range []func(Volume, Facts, Options) string{ofRecord, OfCluster, ofNamespace, ofPV, ofClaim} {
		if why := check(v, f, o); why != "" {
			return Finding{Verdict: Left, Why: why, Released: f.PV != nil && contract.Released(f.PV)}
		}
	}
	found := Finding{Verdict: Made, PVWrite: f.PV == nil}
	switch {
	case f.Claim == nil:
		found.ClaimWrite = CreateClaim
	case f.Claim.Spec.VolumeName == "":
		found.ClaimWrite = NameVolume
	}
	return found
}

// IsBound reports whether the volume's PV and a claim are Bound to each other.
func IsBound(v Volume, f Facts) bool {
	return f.PV != nil && f.names(v) && f.PV.DeletionTimestamp == nil && f.PV.Status.Phase == corev1.VolumeBound &&
		f.Claim != nil && contract.ClaimUID(f.PV) == string(f.Claim.UID) && f.Claim.Spec.VolumeName == f.PV.Name
}

// isItsPV reports whether a PV is the very object that the volume had, and names its pool.
func isItsPV(pv *corev1.PersistentVolume, v Volume) bool {
	return v.PVUID != "" && string(pv.UID) == v.PVUID && pv.Annotations[contract.AnnPool] == v.PoolUUID
}

// KeepsAway returns why a deleted volume must not come back while a PV of its name exists, "" if it
// may. With a PV that is Bound and is the one that the volume had, it may: as after etcd was restored
// from a backup. Any other PV would delete the volume again, or is another volume's.
func KeepsAway(v Volume, f Facts) string {
	pv := f.PV
	switch {
	case pv == nil:
		return ""
	case pv.Status.Phase != corev1.VolumeBound || pv.DeletionTimestamp != nil:
		return fmt.Sprintf("PV %s exists and is %s, and its end would end the volume, too: undelete once that PV is gone",
			pv.Name, phase(pv))
	case !f.names(v) || !isItsPV(pv, v):
		return fmt.Sprintf("PV %s exists, and is not the one that the volume had: it has UID %s and names %s, and the "+
			"volume's had UID %q", pv.Name, pv.UID, DirectoryOf(pv), v.PVUID)
	}
	return ""
}

func phase(pv *corev1.PersistentVolume) string {
	if pv.DeletionTimestamp != nil {
		return "being deleted"
	}
	return string(pv.Status.Phase)
}

// names reports whether the PV names the volume: by its handle, if it is one of the agent's driver, or
// by its directory. Without a pool's UUID it has the directory's whole path.
func (f Facts) names(v Volume) bool {
	if f.PV == nil {
		return false
	}
	pool := f.PV.Annotations[contract.AnnPool]
	if DirectoryOf(f.PV) != v.Name || pool != "" && pool != v.PoolUUID {
		return false
	}
	if source := f.PV.Spec.CSI; source != nil {
		return source.Driver == cmp.Or(f.Driver, contract.CSIProvisioner)
	}
	return pool != "" || path.Clean(contract.DirectoryOf(f.PV)) == path.Join(v.Pool, v.Name)
}

// DirectoryOf returns the name of the directory that a PV names in its pool.
func DirectoryOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.VolumeHandle
	}
	return path.Base(contract.DirectoryOf(pv))
}

func ofRecord(v Volume, _ Facts, _ Options) string {
	switch {
	case v.Problem != "":
		return v.Problem
	case v.Namespace == "" || v.Claim == "":
		return "namespace or name of its claim is not known: edit what `orphans show` prints, and apply it"
	}
	return ""
}

// OfCluster returns why a volume must not come back in this cluster, "" if it may.
func OfCluster(v Volume, f Facts, o Options) string {
	switch {
	case v.Cluster == "":
		return "its record names no cluster: edit what `orphans show` prints, and apply it"
	case v.Cluster == o.FromCluster || v.Cluster == f.Here:
		return ""
	case f.Here == "":
		return "the identity of this cluster is not known (read namespace kube-system)"
	}
	return fmt.Sprintf("it was recorded in another cluster: if that one is lost, use --from-cluster=%s", v.Cluster)
}

func ofNamespace(v Volume, f Facts, o Options) string {
	target, ns := o.Target(v), f.Namespace
	switch {
	case f.Unread != "":
		return "" // the caller notes it, or leaves the volume
	case ns == nil:
		return fmt.Sprintf("namespace %s does not exist: create it, or name another with --to-namespace", target)
	case ns.DeletionTimestamp != nil:
		return fmt.Sprintf("namespace %s is being deleted", target)
	case o.ToNamespace != "", v.Cluster == o.FromCluster && v.Cluster != f.Here:
		return ""
	}
	if why := OtherTenant(v, ns); why != "" {
		return fmt.Sprintf("%s; if it is not, use -n %s --to-namespace=%s", why, target, target)
	}
	return ""
}

// OtherTenant returns why a namespace, which has the name of that of the volume's claim, may be of another
// tenant: it was made again. "" is for the same one. Both must be of one cluster. Whatever writes or prints
// a claim for a volume asks this first.
func OtherTenant(v Volume, ns *corev1.Namespace) string {
	switch {
	case v.NamespaceUID != "" && ns.UID != "":
		if string(ns.UID) == v.NamespaceUID {
			return ""
		}
		return fmt.Sprintf("namespace %s has UID %s, and that of the volume's claim had %s: it may be of another tenant",
			ns.Name, ns.UID, v.NamespaceUID)
	case ns.CreationTimestamp.After(made(v)):
		return fmt.Sprintf("namespace %s was created at %s, after the volume (%s): it may be of another tenant", ns.Name,
			ns.CreationTimestamp.UTC().Format(time.RFC3339), made(v).UTC().Format(time.RFC3339))
	}
	return ""
}

// made returns when the volume's namespace existed for certain. The API server's clock, by which a
// namespace has its time too, comes before that of the node, which may have been wrong.
func made(v Volume) time.Time {
	if !v.ClaimCreated.IsZero() {
		return v.ClaimCreated
	}
	return v.Created
}

func ofPV(v Volume, f Facts, o Options) string {
	pv := f.PV
	if pv == nil {
		return ""
	}
	if v.Kept != "" {
		if why := KeepsAway(v, f); why != "" {
			return why
		}
	}
	ref := pv.Spec.ClaimRef
	switch {
	case !f.names(v):
		return fmt.Sprintf("PV %s exists and names another volume", pv.Name)
	case pv.DeletionTimestamp != nil:
		return fmt.Sprintf("PV %s is being deleted", pv.Name)
	case ref != nil && (ref.Namespace != o.Target(v) || ref.Name != v.Claim):
		return fmt.Sprintf("PV %s exists and is for claim %s/%s", pv.Name, ref.Namespace, ref.Name)
	case contract.Released(pv): // compared with the record above: the command gives the volume to a claim by name
		return fmt.Sprintf("PV %s is %s, and its claim was another: to use it, kubectl patch pv %[1]s -p '%[3]s'"+
			", and recover again (docs/operations.md, Apply saved PVs again)", pv.Name, pv.Status.Phase, toAvailable(pv))
	case ref == nil:
		return fmt.Sprintf("PV %s exists and names no claim: create the claim with volumeName %s", pv.Name, pv.Name)
	case ref.UID != "" && (f.Claim == nil || f.Claim.UID != ref.UID):
		return fmt.Sprintf("PV %s exists and is for a claim with UID %s, which is gone: it will be Released",
			pv.Name, ref.UID)
	}
	return ""
}

// toAvailable returns the patch that makes a Released PV available to a claim of the name. It is for the PV as
// it was read: a second run would make the claim Lost that is bound by then.
func toAvailable(pv *corev1.PersistentVolume) string {
	return fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"persistentVolumeReclaimPolicy":"Retain",`+
		`"claimRef":{"uid":null,"resourceVersion":null}}}`, pv.UID, pv.ResourceVersion)
}

func ofClaim(v Volume, f Facts, o Options) string {
	claim := f.Claim
	if claim == nil {
		return ""
	}
	name := o.Target(v) + "/" + v.Claim
	switch {
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("claim %s is being deleted", name)
	case claim.Spec.VolumeName == v.PVName && (f.PV != nil || claim.Status.Phase != corev1.ClaimPending):
		return "" // it was bound before, or will be without this
	case claim.Spec.VolumeName == v.PVName:
		if why := unfinished(claim); why != "" {
			return fmt.Sprintf("claim %s names the volume's PV, and must not get it: %s", name, why)
		}
		return ""
	case claim.Spec.VolumeName != "":
		return fmt.Sprintf("claim %s has another volume, PV %s", name, claim.Spec.VolumeName)
	}
	pv := f.PV
	if pv == nil && v.Objects != nil {
		pv = v.Objects.PV
	}
	if why := unfit(claim, pv, f.Other); why != "" {
		return fmt.Sprintf("claim %s waits for a volume, and must not get this one: %s", name, why)
	}
	return ""
}
