// Package share lets the objects of a cache share what they have alike.
package share

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// sharedMost is how many different values of a kind are shared unless Most is set, and sharedBytes how long one may
	// be. Any user can create objects with other values, so that more than these begin again.
	sharedMost  = 1024
	sharedBytes = 4096
)

// Sharer lets the objects of caches share what they have alike. The volumes of a node name the same classes, nodes and
// provisioners, and have the same few sizes; an object of its own has each of them in its own memory, and each map with room
// for eight entries. Methods may be called from many goroutines.
//
// A shared map is in many objects: as for every object of a cache, who changes one copies it before.
type Sharer struct {
	// Most is how many different values of a kind are shared, 0 for those of a node.
	Most int

	mu         sync.Mutex
	texts      map[string]string
	maps       map[string]map[string]string
	sizes      map[string]corev1.ResourceList
	affinities map[string]*corev1.VolumeNodeAffinity
}

// PV lets a PV share its maps, its affinity and its texts. It changes the PV, which is in no cache yet.
func (s *Sharer) PV(pv *corev1.PersistentVolume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pv.Labels, pv.Annotations = s.strings(pv.Labels), s.strings(pv.Annotations)
	s.each(pv.Finalizers)
	p := &pv.Spec
	p.Capacity = s.size(p.Capacity)
	p.StorageClassName = s.text(p.StorageClassName)
	each(s, p.AccessModes)
	s.each(p.MountOptions)
	shareText(s, &p.PersistentVolumeReclaimPolicy)
	shareText(s, &pv.Status.Phase)
	if p.CSI != nil {
		p.CSI.VolumeAttributes = s.strings(p.CSI.VolumeAttributes)
		p.CSI.Driver, p.CSI.FSType = s.text(p.CSI.Driver), s.text(p.CSI.FSType)
		if p.CSI.VolumeHandle == pv.Name {
			p.CSI.VolumeHandle = pv.Name
		}
	}
	if ref := p.ClaimRef; ref != nil {
		ref.Kind, ref.APIVersion, ref.Namespace = s.text(ref.Kind), s.text(ref.APIVersion), s.text(ref.Namespace)
	}
	p.NodeAffinity = s.affinity(p.NodeAffinity)
}

// Claim lets a claim share its maps and its texts. It changes the claim, which is in no cache yet.
func (s *Sharer) Claim(claim *corev1.PersistentVolumeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim.Namespace = s.text(claim.Namespace)
	claim.Labels, claim.Annotations = s.strings(claim.Labels), s.strings(claim.Annotations)
	c := &claim.Spec
	c.Resources.Requests = s.size(c.Resources.Requests)
	claim.Status.Capacity = s.size(claim.Status.Capacity)
	claim.Status.AllocatedResources = s.size(claim.Status.AllocatedResources)
	each(s, c.AccessModes)
	each(s, claim.Status.AccessModes)
	shareText(s, &claim.Status.Phase)
	if c.StorageClassName != nil {
		c.StorageClassName = new(s.text(*c.StorageClassName))
	}
	if c.VolumeName == "pvc-"+string(claim.UID) {
		// The UID is the end of the name.
		claim.UID = types.UID(c.VolumeName[len("pvc-"):])
	}
}

func (s *Sharer) each(all []string) { each(s, all) }

func each[T ~string](s *Sharer, all []T) {
	for i := range all {
		shareText(s, &all[i])
	}
}

func shareText[T ~string](s *Sharer, t *T) { *t = T(s.text(string(*t))) }

func (s *Sharer) text(t string) string {
	return shared(s.Most, &s.texts, t, func() string { return strings.Clone(t) })
}

// strings returns the map of the same content that was shared before, or this one.
func (s *Sharer) strings(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	var key strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key.WriteString(strconv.Quote(k) + strconv.Quote(m[k]))
		if key.Len() > sharedBytes {
			return m
		}
	}
	return shared(s.Most, &s.maps, key.String(), func() map[string]string { return m })
}

// size is strings for a list that has the storage alone.
func (s *Sharer) size(l corev1.ResourceList) corev1.ResourceList {
	q, ok := l[corev1.ResourceStorage]
	if !ok || len(l) > 1 {
		return l
	}
	return shared(s.Most, &s.sizes, q.String(), func() corev1.ResourceList { return l })
}

func (s *Sharer) affinity(a *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if a == nil {
		return nil
	}
	key, err := a.Marshal()
	if err != nil {
		return a
	}
	return shared(s.Most, &s.affinities, string(key), func() *corev1.VolumeNodeAffinity { return a })
}

// shared returns the value of the key that was shared before, or else the one that make returns, which is shared from now on.
func shared[V any](most int, all *map[string]V, key string, make func() V) V {
	if v, ok := (*all)[key]; ok {
		return v
	}
	v := make()
	if len(key) > sharedBytes {
		return v
	}
	if *all == nil || len(*all) >= cmp.Or(most, sharedMost) {
		*all = map[string]V{}
	}
	(*all)[strings.Clone(key)] = v
	return v
}
