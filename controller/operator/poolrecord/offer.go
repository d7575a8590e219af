package poolrecord

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Pool is one pool of CSI volumes, with its directory as the agent sees it.
type Pool struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Mount is Path if the pool is not to be used before a filesystem is mounted there.
	Mount string `json:"mount,omitempty"`
}

// Offer is what agents offer.
type Offer struct {
	// Pools are those of CSI volumes.
	Pools []Pool `json:"pools"`
	// PVDir is the directory of hostPath volumes, "" if there are none.
	PVDir  string `json:"pvDir,omitempty"`
	Prefix bool   `json:"prefix,omitempty"`
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
		var some []Pool
		if err := json.Unmarshal([]byte(text), &some); err != nil {
			o.Unreadable = true
		}
		*pools = append(*pools, some...)
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

// Configure sets the variables of an agent's container, from which OfferOf reads the offer.
func (o Offer) Configure(agent *corev1.Container) error {
	list, err := json.Marshal(o.Pools)
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
