package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// pool is one pool of CSI volumes, with its directory as the agent sees it.
type pool = poolrecord.Pool

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
	// record is the operator's own, with what the layout has.
	record *poolrecord.Record
	// templates are those of pools on claims, and claims is what was found of these.
	templates map[pool]*corev1.PersistentVolumeClaimSpec
	claims    claimpools.Result
	// tuned are the settings of the ConfigMap, and invalid is what is wrong with the others.
	tuned   map[string]string
	invalid []string
	// without are nodes that get no agent yet, because the pod of a former agent is there.
	without []string
	// tlsVersion is the oldest version of the agents' metrics, "" for the agent's default.
	tlsVersion string
}

// layoutOf returns what the resource asks for, with the pools in the order of their names.
func layoutOf(cr *v1beta1.HostPathProvisioner) (l layout) {
	if c := cr.Spec.PathConfig; c != nil {
		path := filepath.Clean(c.Path)
		return layout{pvDir: path, prefix: c.UseNamingPrefix,
			pools: []pool{{Name: contract.DefaultPool, Path: filepath.Join(path, "csi")}}}
	}
	l.templates = map[pool]*corev1.PersistentVolumeClaimSpec{}
	for _, p := range cr.Spec.StoragePools {
		path := filepath.Join(filepath.Clean(p.Path), "csi")
		if p.PVCTemplate == nil {
			l.pools = append(l.pools, pool{Name: p.Name, Path: path})
			continue
		}
		if reason, message := claimpools.Refused(p.PVCTemplate); reason != "" {
			l.refused = append(l.refused, refusal{p.Name, reason, message})
			continue
		}
		on := pool{Name: p.Name, Path: path, Mount: path}
		l.pools, l.templates[on] = append(l.pools, on), p.PVCTemplate
	}
	slices.SortFunc(l.pools, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.refused, func(a, b refusal) int { return cmp.Compare(a.pool, b.pool) })
	return l
}

// onClaims returns the pools on claims. One that stays because PVs use it has no template.
func (l layout) onClaims() (all []claimpools.Pool) {
	for _, p := range l.pools {
		if p.Mount != "" {
			all = append(all, claimpools.Pool{Name: p.Name, Path: p.Path, Template: l.templates[p]})
		}
	}
	return all
}

// configure sets the pools of the agent's container: variables, and a volume with a mount for each
// directory. The mounts have the paths of the host, because PVs contain them.
func (l layout) configure(pod *corev1.PodSpec) error {
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
		source := &corev1.HostPathVolumeSource{Path: d.Path, Type: new(corev1.HostPathDirectoryOrCreate)}
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: d.Name, VolumeSource: corev1.VolumeSource{HostPath: source}})
		agent.VolumeMounts = append(agent.VolumeMounts, corev1.VolumeMount{Name: d.Name, MountPath: d.Path,
			MountPropagation: new(corev1.MountPropagationHostToContainer)})
	}
	return nil
}

// directories returns the pod's volumes with their directories: those that contain the pools, and
// that of hostPath volumes.
func (l layout) directories() (all []pool) {
	found := false
	for _, p := range l.pools {
		dir := filepath.Dir(p.Path)
		all = append(all, pool{Name: volumeName(p.Name), Path: dir})
		found = found || dir == l.pvDir
	}
	if l.pvDir != "" && !found {
		all = append(all, pool{Name: "hostpath-volumes", Path: l.pvDir})
	}
	return all
}

// set sets a variable of the container.
func set(c *corev1.Container, name, value string) {
	c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
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

// claimPools returns the reconciler of the pools on claims. Their holders have no owner while the
// resource is deleted: a deletion in the foreground would delete them first.
func (r *Reconciler) claimPools(cr *v1beta1.HostPathProvisioner, record *poolrecord.Record) *claimpools.Reconciler {
	wanted := func(o client.Object) (*unstructured.Unstructured, error) {
		want, err := apply.ToApply(o)
		if err != nil {
			return nil, err
		}
		r.installation().Own(want, cr)
		if cr.DeletionTimestamp != nil {
			want.SetOwnerReferences(nil)
		}
		return want, nil
	}
	return &claimpools.Reconciler{
		Namespace: r.Namespace, Image: r.Image, Client: r.Client, Live: r.Live, Now: r.Now, Recorded: record.Holders,
		Event: func(about client.Object, eventtype, reason, message string) {
			r.Events.Eventf(cr, about, eventtype, reason, "Reconcile", "%s", message)
		},
		Save: func(ctx context.Context, known map[string]poolrecord.Holder) error {
			record.Holders = known
			return record.Write(ctx, r.Client)
		},
		Apply: func(ctx context.Context, o client.Object) error {
			want, err := wanted(o)
			if err != nil {
				return err
			}
			return r.applier.Apply(ctx, cr, want)
		},
		Differs: func(ctx context.Context, o client.Object) (bool, error) {
			want, err := wanted(o)
			if err != nil {
				return false, err
			}
			return r.applier.Differs(ctx, want)
		},
	}
}

// reconcileClaimPools has the pools on claims as the layout has them, on the nodes of the agents.
func (r *Reconciler) reconcileClaimPools(ctx context.Context, cr *v1beta1.HostPathProvisioner, l *layout,
	a agentstatus.State) (err error) {
	wanted := claimpools.Desired{Pools: l.onClaims(), Nodes: offering(a.Running), Agents: a.Desired,
		Settled: a.Settled && len(l.without) == 0} // the others are to have an agent later
	l.claims, err = r.claimPools(cr, l.record).Reconcile(ctx, cr, wanted)
	l.retained = append(l.retained, l.claims.Kept...)
	return err
}
