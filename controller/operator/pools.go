package operator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentenv"
)

// pool is one pool of CSI volumes, with its directory as the agent sees it.
type pool struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// refusal is why a pool of the resource is not offered.
type refusal struct {
	pool, reason, message string
}

func (r refusal) String() string { return fmt.Sprintf("pool %s: %s", r.pool, r.message) }

// layout is what the agents of a resource offer.
type layout struct {
	pools   []pool
	refused []refusal
	// pvDir is the directory of hostPath volumes, "" if there are none.
	pvDir  string
	prefix bool
	// retained is what the resource no longer names and PVs still use.
	retained []string
	// tuned are the settings of the ConfigMap, and invalid is what is wrong with the others.
	tuned   []agentenv.Variable
	invalid []string
}

// layoutOf returns what the resource asks for, with the pools in the order of their names.
func layoutOf(cr *v1beta1.HostPathProvisioner) (l layout) {
	if c := cr.Spec.PathConfig; c != nil {
		path := filepath.Clean(c.Path)
		return layout{pvDir: path, prefix: c.UseNamingPrefix, pools: []pool{{class.DefaultPool, filepath.Join(path, "csi")}}}
	}
	for _, p := range cr.Spec.StoragePools {
		switch {
		case p.PVCTemplate == nil:
			l.pools = append(l.pools, pool{p.Name, filepath.Join(filepath.Clean(p.Path), "csi")})
		case slices.Contains(p.PVCTemplate.AccessModes, corev1.ReadWriteMany):
			l.refused = append(l.refused, refusal{p.Name, "SharedPoolUnsupported",
				"nodes cannot share a pool; remove pvcTemplate, or request ReadWriteOnce"})
		default:
			l.refused = append(l.refused, refusal{p.Name, "StoragePoolNotReady",
				"pools from pvcTemplate are not offered yet; mount a disk at its path on every node, and remove pvcTemplate"})
		}
	}
	slices.SortFunc(l.pools, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.refused, func(a, b refusal) int { return cmp.Compare(a.pool, b.pool) })
	return l
}

// settle gives the agent's container its pools: variables, and a volume with a mount for each directory. The mounts have the
// paths of the host, because PVs contain them.
func (l layout) settle(pod *corev1.PodSpec) error {
	agent := &pod.Containers[0]
	list, err := json.Marshal(l.pools)
	if err != nil {
		return err
	}
	set(agent, "DATADIR", string(list))
	if l.pvDir != "" {
		set(agent, "PROVISION", "hostpath,csi")
		set(agent, "PV_DIR", l.pvDir)
		set(agent, "USE_NAMING_PREFIX", strconv.FormatBool(l.prefix))
	}
	l.pass(pod)
	for _, d := range l.directories() {
		create, propagate := corev1.HostPathDirectoryOrCreate, corev1.MountPropagationHostToContainer
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: d.Name,
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: d.Path, Type: &create}}})
		agent.VolumeMounts = append(agent.VolumeMounts, corev1.VolumeMount{Name: d.Name, MountPath: d.Path, MountPropagation: &propagate})
	}
	return nil
}

// directories returns the pod's volumes, each with the directory that it is: those that contain the pools, and that of
// hostPath volumes.
func (l layout) directories() (all []pool) {
	found := false
	for _, p := range l.pools {
		dir := filepath.Dir(p.Path)
		all = append(all, pool{volumeName(p.Name), dir})
		found = found || dir == l.pvDir
	}
	if l.pvDir != "" && !found {
		all = append(all, pool{"hostpath-volumes", l.pvDir})
	}
	return all
}

// set sets a variable of the container.
func set(c *corev1.Container, name, value string) {
	c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
}

// volumeName returns the name of the pod's volume for a pool. Older pools may have names that are no labels.
func volumeName(pool string) string {
	if len(validation.IsDNS1123Label("pool-"+pool)) == 0 {
		return "pool-" + pool
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(pool)) // it returns no error
	return fmt.Sprintf("pool-%08x", h.Sum32())
}
