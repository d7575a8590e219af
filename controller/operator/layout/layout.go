package layout

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// Refusal is a pool that is not offered, with the reason for the conditions.
type Refusal struct {
	Pool, Reason, Message string
}

func (r Refusal) String() string { return fmt.Sprintf("pool %s: %s", r.Pool, r.Message) }

// Layout is what the agents of a resource offer.
type Layout struct {
	poolrecord.Offer
	Refused []Refusal
	// Retained is what the resource no longer names and volumes still use.
	Retained []string
	// Waiting describes the pools that are not offered yet, and who delays them. Retained has it, too.
	Waiting []string
	// Record is the operator's own, with what the layout has.
	Record *poolrecord.Record
	// Tuned are the settings that apply, and Invalid is what is wrong with the ConfigMap, or with a
	// resource that names no pool: one without a spec passes its schema.
	Tuned   map[string]string
	Invalid []string
	// Withheld is set if the agents stay as they are until a setting can be read.
	Withheld bool

	// templates are those of pools on claims.
	templates map[poolrecord.Pool]*corev1.PersistentVolumeClaimSpec
}

// Of returns what the resource asks for, with the pools in the order of their names.
func Of(cr *v1beta1.HostPathProvisioner) (l Layout) {
	if c := cr.Spec.PathConfig; c != nil {
		path := filepath.Clean(c.Path)
		return Layout{Offer: poolrecord.Offer{PVDir: path, Prefix: c.UseNamingPrefix,
			Pools: []poolrecord.Pool{{Name: contract.DefaultPool, Path: filepath.Join(path, "csi")}}}}
	}
	if len(cr.Spec.StoragePools) == 0 {
		l.Invalid = []string{"the resource names no pool: set spec.storagePools, with a name and a path for each"}
	}
	l.templates = map[poolrecord.Pool]*corev1.PersistentVolumeClaimSpec{}
	for _, p := range cr.Spec.StoragePools {
		path := filepath.Join(filepath.Clean(p.Path), "csi")
		l.Detail(p.Name, detailsOf(p))
		if p.PVCTemplate == nil {
			l.Pools = append(l.Pools, poolrecord.Pool{Name: p.Name, Path: path})
			continue
		}
		if reason, message := objects.Refused(p.PVCTemplate); reason != "" {
			l.Refused = append(l.Refused, Refusal{p.Name, reason, message})
			continue
		}
		on := poolrecord.Pool{Name: p.Name, Path: path, Mount: path}
		l.Pools, l.templates[on] = append(l.Pools, on), p.PVCTemplate
	}
	slices.SortFunc(l.Pools, func(a, b poolrecord.Pool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Refused, func(a, b Refusal) int { return cmp.Compare(a.Pool, b.Pool) })
	return l
}

// detailsOf returns what may change of a pool of the resource.
func detailsOf(p v1beta1.StoragePool) (d poolrecord.Details) {
	for label, value := range p.NodeSelector {
		if d.NodeSelector == nil {
			d.NodeSelector = map[string]string{}
		}
		d.NodeSelector[label] = string(value)
	}
	d.ScaleDown = p.ScaleDown && p.PVCTemplate != nil
	if p.Mount && p.PVCTemplate == nil {
		d.Mount = filepath.Clean(p.Path)
	}
	return d
}

// OnClaims returns the pools on claims. One that stays because PVs use it has no template.
func (l Layout) OnClaims() (all []objects.Pool) {
	for _, p := range l.Pools {
		if p.Mount != "" {
			all = append(all, objects.Pool{Name: p.Name, Path: p.Path, Template: l.templates[p],
				NodeSelector: l.Details[p.Name].NodeSelector, ScaleDown: l.Details[p.Name].ScaleDown})
		}
	}
	return all
}

// Configure sets the pools of the agent's container: variables, and a volume with a mount for each
// directory. The mounts have the paths of the host, because PVs contain them.
func (l Layout) Configure(pod *corev1.PodSpec) error {
	agent := &pod.Containers[0]
	if err := l.Offer.Configure(agent); err != nil {
		return err
	}
	l.pass(pod)
	for _, d := range l.directories() {
		source := &corev1.HostPathVolumeSource{Path: d.Path, Type: new(corev1.HostPathDirectoryOrCreate)}
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: d.Name, VolumeSource: corev1.VolumeSource{HostPath: source}})
		agent.VolumeMounts = append(agent.VolumeMounts, corev1.VolumeMount{Name: d.Name, MountPath: d.Path,
			MountPropagation: new(corev1.MountPropagationHostToContainer)})
	}
	return nil
}

// directories returns the pod's volumes with their directories: those that contain the pools, or above
// them the mount points of their disks, and that of hostPath volumes.
func (l Layout) directories() (all []poolrecord.Pool) {
	has := func(dir string) bool {
		return slices.ContainsFunc(all, func(d poolrecord.Pool) bool { return d.Path == dir })
	}
	for _, p := range l.Pools {
		dir := filepath.Dir(p.Path)
		if l.Details[p.Name].Mount != "" { // a volume of a pod is always a mount point
			dir = filepath.Dir(dir)
		}
		if !has(dir) {
			all = append(all, poolrecord.Pool{Name: volumeName(p.Name), Path: dir})
		}
	}
	if l.PVDir != "" && !has(l.PVDir) {
		all = append(all, poolrecord.Pool{Name: "hostpath-volumes", Path: l.PVDir})
	}
	return all
}

// volumeName returns the name of the pod's volume for a pool, whose name may be no label.
func volumeName(pool string) string {
	if len(validation.IsDNS1123Label("pool-"+pool)) == 0 {
		return "pool-" + pool
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(pool)) // it returns no error
	return fmt.Sprintf("pool-%08x", h.Sum32())
}
