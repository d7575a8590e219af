package poolrecord

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Pool is one pool of CSI volumes, with its directory as the agent sees it. Another path, and a disk on
// a claim or not, are another pool.
type Pool struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Mount is Path if the pool is on a claim, and not to be used before its filesystem is mounted.
	Mount string `json:"mount,omitempty"`
}

// Details are what may change of a pool that stays the same one.
type Details struct {
	// NodeSelector are the labels of the nodes that have the pool, none for all nodes.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Mount is the directory above Pool.Path that has to be a mount point, "" if none has to.
	Mount string `json:"mount,omitempty"`
	// ScaleDown is set if the cluster-autoscaler may remove a node with the pool's claim.
	ScaleDown bool `json:"scaleDown,omitempty"`
}

// Offer is what agents offer.
type Offer struct {
	// Pools are those of CSI volumes.
	Pools []Pool `json:"pools"`
	// Details are those of pools that have any, by their names.
	Details map[string]Details `json:"details,omitempty"`
	// PVDir is the directory of hostPath volumes, "" if there are none.
	PVDir  string `json:"pvDir,omitempty"`
	Prefix bool   `json:"prefix,omitempty"`
}

// dataDir is a pool in the agents' variable DATADIR.
type dataDir struct {
	Pool
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// Lacks reports whether the offer lacks something of the other.
func (o Offer) Lacks(other Offer) bool {
	return slices.ContainsFunc(other.Pools, func(p Pool) bool { return !slices.Contains(o.Pools, p) }) ||
		other.PVDir != "" && other.PVDir != o.PVDir
}

// PodOffer is what the pod of an agent offers. Users can change pods, so it only delays.
type PodOffer struct {
	Offer
	// Older are the pools of an agent of the existing operator, which has them in another variable.
	Older []Pool
	// Unreadable is set if the pod has settings that cannot be read. It may offer anything.
	Unreadable bool
}

// OfferOf reads what the agent of the pod offers.
func OfferOf(pod corev1.PodSpec) (o PodOffer) {
	read := func(text string, pools *[]Pool) {
		var some []dataDir
		if err := json.Unmarshal([]byte(text), &some); err != nil {
			o.Unreadable = true
		}
		for _, d := range some {
			more := Details{NodeSelector: d.NodeSelector}
			if d.Mount != d.Path {
				more.Mount, d.Mount = d.Mount, ""
			}
			o.detail(d.Name, more)
			*pools = append(*pools, d.Pool)
		}
	}
	for _, c := range pod.Containers {
		for _, v := range c.Env {
			switch {
			case v.Value == "":
			case v.Name == "DATADIR":
				read(v.Value, &o.Pools)
			case v.Name == "PV_DIR" && filepath.IsAbs(v.Value):
				o.PVDir = v.Value
			case v.Name == "PV_DIR":
				read(v.Value, &o.Older)
			case v.Name == "USE_NAMING_PREFIX":
				o.Prefix = v.Value == "true"
			}
		}
	}
	return o
}

// detail sets the details of a pool.
func (o *Offer) detail(pool string, d Details) {
	switch {
	case len(d.NodeSelector) == 0 && d.Mount == "" && !d.ScaleDown:
		delete(o.Details, pool)
	case o.Details == nil:
		o.Details = map[string]Details{pool: d}
	default:
		o.Details[pool] = d
	}
}

// Detail sets the details of a pool, in a copy of those of others.
func (o *Offer) Detail(pool string, d Details) {
	o.Details = maps.Clone(o.Details)
	o.detail(pool, d)
}

// Configure sets the variables of an agent's container, from which OfferOf reads the offer.
func (o Offer) Configure(agent *corev1.Container) error {
	all := make([]dataDir, len(o.Pools))
	for i, p := range o.Pools {
		more := o.Details[p.Name]
		if p.Mount == "" {
			p.Mount = more.Mount
		}
		all[i] = dataDir{p, more.NodeSelector}
	}
	list, err := json.Marshal(all)
	if err != nil {
		return err
	}
	Set(agent, "DATADIR", string(list))
	if o.PVDir != "" {
		Set(agent, "PROVISION", "hostpath,csi")
		Set(agent, "PV_DIR", o.PVDir)
		Set(agent, "USE_NAMING_PREFIX", strconv.FormatBool(o.Prefix))
	}
	return nil
}

// Set sets a variable of the container.
func Set(c *corev1.Container, name, value string) {
	c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
}
