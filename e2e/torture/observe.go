package torture

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Sight is an observation of the cluster and the disks, with what the tenants know.
type Sight struct {
	Claims []corev1.PersistentVolumeClaim
	PVs    []SeenPV
	// Warned has the messages of Warnings about claims and their pods, by the claim's UID.
	Warned map[types.UID]string
	Disks  []SeenDisk
	// Remembered has an entry for every claim that was ever created.
	Remembered []Memory
}

// SeenPV is a PV and its location.
type SeenPV struct {
	corev1.PersistentVolume
	Node, Directory string
}

// SeenDisk is a node's disk with its pools.
type SeenDisk struct {
	Node, Filesystem string
	Total            int64
	Pools            []SeenPool
	// Limits are the kernel's quotas, by name; nil if the filesystem has none. Unused are those of
	// them that count nothing.
	Limits, Unused []string
}

// SeenPool is the content of a pool, and its agent's numbers.
type SeenPool struct {
	Path string
	harness.Report
	// Directories are those of volumes; Staging, Trash and Kept are the content of the private ones.
	Directories, Staging, Trash, Kept []string
	// Allocated and Available are metrics of the running agent.
	Allocated, Available int64
}

// Memory is what a tenant knows for certain about one claim.
type Memory struct {
	Name, Directory, PV string
	UID                 types.UID
	Policy              corev1.PersistentVolumeReclaimPolicy
	// Deleted is set if the claim was deleted, Kept if its data must exist.
	Deleted, Kept bool
	// Damage lists missing and incomplete files.
	Damage []string
}

// observe observes everything; the error lists what cannot be read now.
func (c *campaign) observe() (s Sight, err error) {
	ctx := c.Context()
	claims, err := c.Client.CoreV1().PersistentVolumeClaims(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, err
	}
	pvs, err := c.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, err
	}
	s.Claims = claims.Items
	for _, pv := range pvs.Items {
		node, directory := c.place(&pv)
		s.PVs = append(s.PVs, SeenPV{pv, node, directory})
	}
	if s.Warned, err = c.warnings(ctx); err != nil {
		return s, err
	}
	for _, n := range c.nodes {
		d, err := c.observeDisk(n)
		if err != nil {
			return s, fmt.Errorf("%s (%s): %w", n.Name, n.filesystem, err)
		}
		s.Disks = append(s.Disks, d)
	}
	for _, t := range c.tenants {
		for _, cl := range t.claims {
			m := Memory{Name: cl.name, UID: cl.uid, PV: cl.pv(), Directory: cl.directory, Policy: cl.policy, Deleted: cl.deleted,
				Kept: cl.kept()}
			if m.Kept {
				m.Damage = damaged(cl)
			}
			s.Remembered = append(s.Remembered, m)
		}
	}
	return s, nil
}

// warnings returns the Warnings about claims and about the pods of the same names.
func (c *campaign) warnings(ctx context.Context) (map[types.UID]string, error) {
	events, err := c.Client.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	byName := map[string]string{}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && e.Reason != "QuotaNotEnforced" { // of a claim that is served
			byName[e.InvolvedObject.Name] = e.Message
		}
	}
	said := map[types.UID]string{}
	for _, t := range c.tenants {
		for _, cl := range t.claims {
			if words := byName[cl.name]; words != "" {
				said[cl.uid] = words
			}
		}
	}
	return said, nil
}

func (c *campaign) observeDisk(n *node) (SeenDisk, error) {
	d := SeenDisk{Node: n.Name, Filesystem: n.filesystem}
	if err := n.agent.Ready(); err != nil {
		return d, err
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(n.Pool, &st); err != nil {
		return d, err
	}
	d.Total = int64(st.Blocks) * st.Bsize
	if n.filesystem == "btrfs" {
		counts, err := n.disk.Groups()
		if err != nil {
			return d, err
		}
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			d.Limits = append(d.Limits, name)
			if counts[name] == 0 {
				d.Unused = append(d.Unused, name)
			}
		}
	}
	for _, p := range n.pools {
		seen, err := c.observePool(n, p)
		if err != nil {
			return d, err
		}
		d.Pools = append(d.Pools, seen)
	}
	return d, nil
}

func (c *campaign) observePool(n *node, p pool) (s SeenPool, err error) {
	s.Path = p.path
	for _, metric := range []struct {
		name string
		to   *int64
	}{{"kubevirt_hpp_pool_allocated_bytes", &s.Allocated}, {"kubevirt_hpp_pool_available_bytes", &s.Available}} {
		v, err := n.agent.Metric(metric.name, fmt.Sprintf("pool=%q", p.name))
		if err != nil {
			return s, err
		}
		*metric.to = int64(v)
	}
	if s.Report, err = c.Report(p.path); err != nil {
		return s, err
	}
	if s.Directories, err = children(p.path, reserved...); err != nil {
		return s, err
	}
	if s.Staging, err = children(filepath.Join(p.path, privateDir, "staging")); err != nil {
		return s, err
	}
	if s.Trash, err = children(filepath.Join(p.path, privateDir, "trash")); err != nil {
		return s, err
	}
	s.Kept, err = children(filepath.Join(p.path, privateDir, keptDir))
	return s, err
}

// volumes returns the pool's records by the names of their directories.
func (s *SeenPool) volumes() map[string]harness.ReportVolume {
	byName := map[string]harness.ReportVolume{}
	for _, v := range s.Volumes {
		byName[v.Name] = v
	}
	return byName
}

// pool returns the pool that contains the directory, nil if no pool of the node does.
func (s *Sight) pool(node, directory string) *SeenPool {
	for i := range s.Disks {
		for j := range s.Disks[i].Pools {
			if p := &s.Disks[i].Pools[j]; s.Disks[i].Node == node && p.Path == filepath.Dir(directory) {
				return p
			}
		}
	}
	return nil
}

// claim returns the claim with the UID, nil if there is none.
func (s *Sight) claim(uid types.UID) *corev1.PersistentVolumeClaim {
	for i := range s.Claims {
		if s.Claims[i].UID == uid {
			return &s.Claims[i]
		}
	}
	return nil
}

// pv returns the PV with the name, nil if there is none.
func (s *Sight) pv(name string) *SeenPV {
	for i := range s.PVs {
		if s.PVs[i].Name == name {
			return &s.PVs[i]
		}
	}
	return nil
}

// short returns a path without the campaign's own directory.
func short(path string) string {
	_, rest, ok := strings.Cut(path, "/pools/")
	if !ok {
		return path
	}
	return rest
}
