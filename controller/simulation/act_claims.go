package simulation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// claimActs are what tenants do.
var claimActs = []act{
	{words: "claim", usage: "NAME NODE CLASS SIZE: a pod that may run on the node alone uses a new claim", weight: 4, next: []string{"delete claim"},
		draw: func(w *World) []string {
			return []string{w.newName(), pick(w, w.nodes).name, w.aClass(), "1Mi"}
		},
		do: func(w *World, args []string) bool {
			return w.makeClaim(arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3))
		}},
	{words: "delete claim", usage: "NAME: its pod ends, and the claim is deleted", weight: 3, next: []string{"claim again", "delete pv", "disk back", "raw stop", "raw unref", "raw restart"},
		draw: func(w *World) []string { return w.aClaim() },
		do:   func(w *World, args []string) bool { return w.deleteClaim(arg(args, 0)) }},
	{words: "claim again", usage: "NAME: a claim is made again under its name, as a StatefulSet does", weight: 1,
		draw: func(w *World) []string { return w.aFormerClaim() },
		do: func(w *World, args []string) bool {
			v := w.judge.volumeOfClaim(arg(args, 0))
			return v != nil && w.makeClaim(args[0], v.node, w.classOf(v), "1Mi")
		}},
	{words: "claim pinned", usage: "NAME VALUE: a claim of class hp whose annotation is to name its node", weight: 1,
		draw: func(w *World) []string {
			n := pick(w, w.nodes).name
			return []string{w.newName(), pick(w, []string{n, "node/" + n, "Node-01", "node-09"})}
		},
		do: func(w *World, args []string) bool {
			return w.apply(tenant, arg(args, 0), "hp", corev1.PersistentVolumeClaimSpec{}, map[string]string{contract.AnnProvisionOnNode: arg(args, 1)}, nil)
		}},
	{words: "grow claim", usage: "NAME SIZE: it requests more", weight: 1,
		draw: func(w *World) []string {
			if c := w.aClaim(); c != nil {
				return append(c, pick(w, []string{"2Mi", "8Mi", "1Pi"}))
			}
			return nil
		},
		do: func(w *World, args []string) bool {
			size, err := resource.ParseQuantity(arg(args, 1))
			return err == nil && w.editClaim(arg(args, 0), func(c *corev1.PersistentVolumeClaim) bool {
				if c.Status.Phase != corev1.ClaimBound || size.Cmp(c.Spec.Resources.Requests[corev1.ResourceStorage]) <= 0 {
					return false
				}
				c.Spec.Resources.Requests[corev1.ResourceStorage] = size
				return true
			})
		}},
}

// newName returns the name of a claim that there was not yet.
func (w *World) newName() string {
	w.claims++
	return fmt.Sprintf("c%d", w.claims)
}

func sorted(names []string) []string { slices.Sort(names); return names }

// aClass draws a class, often one with the policy of the run.
func (w *World) aClass() string {
	class := pick(w, w.classNames())
	if pool, _, is := strings.Cut(class, "-"); is && w.gone != "" && w.rnd.IntN(3) > 0 {
		return pool + "-" + w.gone
	}
	return class
}

func (w *World) classNames() (all []string) {
	if w.inst.Load() != nil {
		return slices.Concat(w.classesOf("a"), w.classesOf("b"), w.classesOf("c"))
	}
	return slices.Concat(w.classesOf("a"), w.classesOf("b"), []string{"hp"})
}

func (w *World) classesOf(pool string) (all []string) {
	for _, p := range policies {
		all = append(all, pool+"-"+p)
	}
	return all
}

// classOf is a class of a volume's pool.
func (w *World) classOf(v *volume) string {
	if v.pool == "hp" {
		return "hp"
	}
	return v.pool + "-keep"
}

const tenant = "tenant" // the namespace of all claims

func (w *World) makeClaim(name, node, class, size string) bool {
	bytes, err := resource.ParseQuantity(size)
	if err != nil || w.node(node) == nil {
		return false
	}
	spec := corev1.PersistentVolumeClaimSpec{}
	spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: bytes}
	return w.apply(tenant, name, class, spec, nil, map[string]string{wantsNode: node})
}

// apply makes a claim, of a MiB if the spec has no size. It returns false if there is one of that name.
func (w *World) apply(namespace, name, class string, spec corev1.PersistentVolumeClaimSpec, notes, labels map[string]string) bool {
	spec.StorageClassName, spec.AccessModes = &class, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	if spec.Resources.Requests == nil {
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	}
	_, err := w.god.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: notes}, Spec: spec}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return false
	}
	must(err)
	return true
}

// aClaim draws the name of a claim that lives, nil if there is none.
func (w *World) aClaim() []string {
	var names []string
	for _, c := range must1(w.god.CoreV1().PersistentVolumeClaims(tenant).List(ctx, metav1.ListOptions{})).Items {
		if c.DeletionTimestamp == nil {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{pick(w, sorted(names))}
}

// aFormerClaim draws the name of a claim that was deleted, nil if there is none.
func (w *World) aFormerClaim() []string {
	var names []string
	for _, name := range w.judge.claims() {
		_, err := w.god.CoreV1().PersistentVolumeClaims(tenant).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{pick(w, sorted(names))}
}

// claims are the names of those that had volumes on nodes of this cluster.
func (j *judge) claims() (all []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.volumes {
		if name, is := strings.CutPrefix(v.name, tenant+"/"); is && !v.foreign && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// aPV draws the claim of a PV that exists, nil if there is none. The claim may be gone.
func (w *World) aPV() []string {
	names := w.judge.claimsOfPVs()
	if len(names) == 0 {
		return nil
	}
	return []string{pick(w, sorted(names))}
}

// deleteClaim deletes a claim. The data may go with it if its PV says so now.
func (w *World) deleteClaim(name string) bool {
	claims := w.god.CoreV1().PersistentVolumeClaims(tenant)
	c, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil || c.DeletionTimestamp != nil {
		return false
	}
	w.judge.wants(c.UID, claimDeleted)
	w.judge.due(c)
	must(claims.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID}}))
	return true
}

// editClaim changes a claim, if change returns true.
func (w *World) editClaim(name string, change func(*corev1.PersistentVolumeClaim) bool) bool {
	claims := w.god.CoreV1().PersistentVolumeClaims(tenant)
	c, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil || c.DeletionTimestamp != nil || !change(c) {
		return false
	}
	_, err = claims.Update(ctx, c, metav1.UpdateOptions{})
	return err == nil
}

// editPV changes the PV of a claim that lived, if change returns true.
func (w *World) editPV(claim string, change func(*corev1.PersistentVolume) bool) bool {
	pv := w.pvOf(claim)
	if pv == nil || !change(pv) {
		return false
	}
	_, err := w.god.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
	return err == nil
}

// pvOf is the PV that was made for a claim of that name, the last one if there were several.
func (w *World) pvOf(claim string) (found *corev1.PersistentVolume) {
	list := must1(w.god.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{}))
	for i := range list.Items {
		if ref := list.Items[i].Spec.ClaimRef; ref != nil && ref.Name == claim || w.judge.claimOfPV(list.Items[i].Name) == claim {
			found = &list.Items[i]
		}
	}
	return found
}

// claimDeleted is why the data of most volumes may go.
const claimDeleted = "its claim was deleted"

// wants notes that the data of a claim's volume may go, if the policy of its PV is Delete.
func (j *judge) wants(claim types.UID, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.volumes {
		if v.claim == claim && v.policy != string(corev1.PersistentVolumeReclaimRetain) {
			v.wanted = why
		}
	}
}

// volumeOfClaim is the last volume of a claim of that name, nil if it had none.
func (j *judge) volumeOfClaim(name string) (found *volume) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.volumes {
		if v.name == tenant+"/"+name {
			found = v
		}
	}
	return found
}

// claimsOfPVs are the names of the claims that the PVs of volumes were made for.
func (j *judge) claimsOfPVs() (all []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.pvs {
		if name, is := strings.CutPrefix(v.name, tenant+"/"); is && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func (j *judge) claimOfPV(pv string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.pvs[pv]; v != nil {
		_, name, _ := strings.Cut(v.name, "/")
		return name
	}
	return ""
}
