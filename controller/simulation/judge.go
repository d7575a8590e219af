package simulation

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// object is decoded JSON.
type object = map[string]any

// judge keeps its own account of the volumes, from the writes to the API server and from what
// people do, and finds what must not be. The API server calls it from all goroutines.
type judge struct {
	world *World

	mu      sync.Mutex // guards the rest; never held while anything waits
	volumes []*volume
	pvs     map[string]*volume // by the name of a PV that exists
	found   []Violation
	grace   time.Duration // of lost nodes
	wake    chan struct{} // closed at the next change of a claim or PV
	wrote   chan struct{} // closed when a process writes one

	gone   map[string]string                   // by class: what it asks for if a node is gone
	backup map[string]*corev1.PersistentVolume // by claim: its first PV, as a backup has it
	looked time.Time                           // when it last looked for what pools keep
	made   map[types.UID]time.Time             // claims: when each was first seen
	ended  map[types.UID]time.Time             // those that are gone
	older  bool                                // etcd was restored from a backup
	tenant types.UID                           // the namespace of the claims; one that is made again is another tenant's
}

// volume is a directory that a claim got, as the judge knows it.
type volume struct {
	node, pool, dir string
	claim           types.UID
	name            string    // of the claim: namespace/name
	mark            string    // what its pod wrote; "" if it has not written
	class, policy   string    // of its PV, as last seen
	wanted          string    // who asked for the deletion of the data; "" if there was no request
	removed         time.Time // when a person removed its PV by force
	given           string    // how the operator gave it up; "" if it did not
	handed          bool      // an administrator gave its PV to another claim
	kept            time.Time // since when its pool keeps it, deleted
	keptFor         time.Duration
	undeleted       string // who had asked for the deletion before it came back
	recovered       bool   // its PV and claim were made again: the next claim of the name has it
	disk, path      string // where an installed agent made it: below the disk, or on the machine
	missed          time.Time
	bound           time.Time // when its PV was last bound to a claim
	pv              types.UID // of a PV whose claim was deleted when it had been Bound under its agent
	edited          bool      // people or tools changed what the product wrote on its PV
	foreign         bool      // its PV was made in another cluster
	tenant          types.UID // the namespace of its claim
	fill            string    // what its pod wrote beside the mark; "" if nothing
	fillAt          time.Time
}

// Violation is a rule that was broken.
type Violation struct {
	Rule string // of Rules
	Kind string // what happened, without names and times: equal for equal defects
	Text string
}

func newJudge(w *World) *judge {
	return &judge{world: w, grace: grace, pvs: map[string]*volume{}, wake: make(chan struct{}), wrote: make(chan struct{}), backup: map[string]*corev1.PersistentVolume{}, gone: map[string]string{},
		made: map[types.UID]time.Time{}, ended: map[types.UID]time.Time{}}
}

// blame records a violation. The format is its kind.
func (j *judge) blame(rule, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.blameLocked(rule, format, args...)
}

func (j *judge) blameLocked(rule, format string, args ...any) {
	text := fmt.Sprintf("%s: ", time.Since(j.world.began).Truncate(time.Second)) + fmt.Sprintf(format, args...)
	j.found = append(j.found, Violation{Rule: rule, Kind: format, Text: text})
}

// violations are those so far.
func (j *judge) violations() []Violation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.found
}

// changed is closed at the next change of a claim, a PV or a Node.
func (j *judge) changed() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wake
}

// written is closed when a process writes a claim or a PV.
func (j *judge) written() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wrote
}

// seen is called after each write.
func (j *judge) seen(x apiserver.Write) {
	j.world.raw.seen(x)
	j.mu.Lock()
	defer j.mu.Unlock()
	if strings.HasPrefix(x.Resource, "persistentvolume") && x.Who != "god" {
		close(j.wrote)
		j.wrote = make(chan struct{})
	}
	j.sized(x)
	switch x.Resource {
	case "persistentvolumes":
		j.seenPV(x)
	case "persistentvolumeclaims":
		j.lives(x)
		if x.Verb == "delete" && isOperator(x.Who) {
			for _, v := range j.volumes {
				if v.claim == types.UID(field(x.Old, "metadata", "uid")) {
					j.givenUp(v, "its claim is deleted")
					if j.gone[v.class] == "delete" && v.policy != string(corev1.PersistentVolumeReclaimRetain) {
						v.wanted = "its class gives the data of lost nodes up"
					}
				}
			}
		}
	case "storageclasses":
		j.gone[x.Name] = field(x.New, "metadata", "annotations", contract.AnnNodeGone)
	case "nodes":
	default:
		return
	}
	close(j.wake)
	j.wake = make(chan struct{})
}

// poke wakes the controller-manager.
func (j *judge) poke() {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.wake)
	j.wake = make(chan struct{})
}

func isOperator(who string) bool { return strings.HasPrefix(who, "operator") }

// seenPV follows the PV objects: which volume each names, and its policy.
func (j *judge) seenPV(x apiserver.Write) {
	v := j.pvs[x.Name]
	switch {
	case x.New == nil:
		delete(j.pvs, x.Name)
		return
	case x.Old == nil:
		v = j.volumeOf(x)
		if v == nil {
			return
		}
		j.pvs[x.Name] = v
	case v == nil:
		return
	}
	v.class = field(x.New, "spec", "storageClassName")
	v.foreign = v.foreign || x.Old == nil && strings.HasPrefix(x.Name, "foreign-")
	v.edited = v.edited || x.Old == nil && x.Who != "god" && field(x.New, "metadata", "annotations", contract.AnnCluster) == "" // a webhook
	v.edited = v.edited || x.Old != nil && x.Who == "god" && !maps.Equal(notes(x.Old), notes(x.New))
	v.policy = field(x.New, "spec", "persistentVolumeReclaimPolicy")
	if during := field(x.New, "metadata", "annotations", contract.AnnPolicy); during != "" {
		v.policy = during // a migration has Retain meanwhile
	}
	if !isOperator(x.Who) {
		return
	}
	if x.Verb == "delete" {
		j.givenUp(v, "its PV is deleted")
	}
	for _, k := range []string{contract.AnnGivenUp, contract.AnnFormerPolicy} {
		if is := field(x.New, "metadata", "annotations", k); is != "" && is != field(x.Old, "metadata", "annotations", k) {
			j.givenUp(v, "it gets the annotation "+k)
		}
	}
}

// volumeOf is the volume that a new PV names, which may be known by another PV before it; nil if
// the PV is none of directories.
func (j *judge) volumeOf(x apiserver.Write) *volume {
	ref := types.UID(field(x.New, "spec", "claimRef", "uid"))
	at := volume{claim: ref, name: field(x.New, "spec", "claimRef", "namespace") + "/" + field(x.New, "spec", "claimRef", "name")}
	if path := field(x.New, "spec", "hostPath", "path"); path != "" {
		rest, ok := strings.CutPrefix(path, j.world.base+"/")
		parts := strings.Split(rest, "/")
		if !ok || len(parts) != 3 {
			return nil
		}
		at.node, at.pool, at.dir = parts[0], parts[1], parts[2]
	} else if at.dir = field(x.New, "spec", "csi", "volumeHandle"); at.dir != "" && field(x.New, "spec", "csi", "driver") == contract.CSIProvisioner {
		at.pool = field(x.New, "spec", "csi", "volumeAttributes", contract.StoragePool)
		if at.pool == "hostpath" { // its agent calls it that
			at.pool = "hp"
		}
		at.node = field(x.New, "metadata", "annotations", contract.AnnProvisionOnNode)
		if at.node == "" {
			at.node = field(x.New, "metadata", "labels", contract.LabelNode)
		}
	} else {
		return nil
	}
	for _, v := range j.volumes {
		if v.node == at.node && v.pool == at.pool && v.dir == at.dir && v.wanted == "" {
			return v
		}
	}
	at.tenant = j.tenant
	j.volumes = append(j.volumes, &at)
	if i := j.world.inst.Load(); i != nil {
		at.policy = field(x.New, "spec", "persistentVolumeReclaimPolicy")
		i.locate(x.Who, &at)
		if strings.HasPrefix(x.Who, "agent/") { // people apply PVs with any policy
			i.settingOf(&at)
		}
	}
	return &at
}

// notes are the labels and annotations of an object.
func notes(o object) map[string]any {
	m, _ := o["metadata"].(object)
	all := map[string]any{}
	for _, k := range []string{"labels", "annotations"} {
		some, _ := m[k].(object)
		maps.Copy(all, some)
	}
	return all
}

// field is the string at a path of an object, "" if there is none.
func field(o object, path ...string) string {
	for i, k := range path {
		if i == len(path)-1 {
			s, _ := o[k].(string)
			return s
		}
		o, _ = o[k].(object)
	}
	return ""
}
