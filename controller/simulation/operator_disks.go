package simulation

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/volume/poolmount"
)

// diskDriver provisions the disks of pools on claims of diskClass: each is a directory of the machine.
// To mount it, it is exchanged with that of the pool: this process has one mount table for all nodes.
const diskClass, diskDriver = "disk", "disk.example.com"

// diskMount is a disk that is mounted at a path.
type diskMount struct {
	disk  string // the name of its PV
	owner poolmount.Owner
}

var (
	errOther = errors.New("another filesystem is mounted there")
	errBusy  = errors.New("an agent uses the filesystem")
)

// mounted returns nil if a disk is mounted at the directory.
func (n *node) mounted(dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, is := n.mounts[dir]; !is {
		return errors.New("not mounted")
	}
	return nil
}

func (n *node) exchange(disk, path string) error {
	return unix.Renameat2(unix.AT_FDCWD, filepath.Join(n.base, "disks", disk), unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
}

// attach mounts a disk for the owner, as poolmount.Attach does.
func (n *node) attach(disk, path string, owner poolmount.Owner) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	m, is := n.mounts[path]
	if is && m.disk != disk {
		return errOther
	}
	if !is {
		must(errors.Join(os.MkdirAll(path, 0o755), n.exchange(disk, path)))
	}
	n.mounts[path] = diskMount{disk, owner}
	return nil
}

// detach unmounts what was mounted for the owner, as poolmount.Detach does. Pods do not keep a disk
// busy: their mounts are their own.
func (i *installed) detach(c *container) error {
	n := c.node
	n.mu.Lock()
	m, is := n.mounts[c.path]
	n.mu.Unlock()
	switch {
	case !is, m.owner.Pool != "" && c.owner.Pool != "" && m.owner.Pool != c.owner.Pool:
		return nil
	case m.owner != c.owner:
		return errOther
	}
	for _, other := range i.running {
		if other.node == n && other.agent != nil && slices.Contains(slices.Collect(maps.Values(other.agent.paths)), c.path) {
			return errBusy
		}
	}
	n.unmount(c.path)
	i.judge.unmounted(n, m.disk)
	return nil
}

func (n *node) unmount(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	must(n.exchange(n.mounts[path].disk, path))
	delete(n.mounts, path)
	_ = os.Remove(path) // unless something is there
}

// real returns where the bytes of a path on a disk are, or of a path of the machine if disk is "".
func (n *node) real(disk, path string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at, m := range n.mounts {
		rest, below := strings.CutPrefix(path+"/", at+"/")
		switch {
		case disk == "" && below:
			return filepath.Join(n.base, "disks", m.disk, rest)
		case m.disk == disk:
			return filepath.Join(at, path)
		}
	}
	if disk != "" {
		return filepath.Join(n.base, "disks", disk, path)
	}
	pool := n.pool(path)
	return filepath.Join(n.dir(pool), strings.TrimPrefix(path, filepath.Join(n.base, pool)))
}

// pool is the first element of a path on the machine: the pool that a disk is taken away from.
func (n *node) pool(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, n.base+"/"), "/")
	return first
}

// disks provisions the disks for which pods wait, and removes those whose claims are gone, by the
// policy of their PVs: mounted or not, their data goes.
func (i *installed) disks(all *objects) {
	for _, pod := range all.pods.Items {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			c := all.claim(pod.Namespace, v.PersistentVolumeClaim.ClaimName)
			if c != nil && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil {
				i.steps.doAfter(5*time.Second, "provision "+string(c.UID), func() error { return i.makeDisk(pod.Spec.NodeName, c) })
			}
		}
	}
	for k := range all.volumes.Items {
		pv := &all.volumes.Items[k]
		if of := pv.Spec.CSI; of != nil && of.Driver == diskDriver && pv.Status.Phase == corev1.VolumeReleased &&
			pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && pv.DeletionTimestamp == nil {
			dir := i.node(of.VolumeAttributes["node"]).real(pv.Name, "")
			for _, e := range must1(os.ReadDir(dir)) {
				must(os.RemoveAll(filepath.Join(dir, e.Name())))
			}
			i.remove(0, pv)
		}
	}
}

func (i *installed) makeDisk(node string, c *corev1.PersistentVolumeClaim) error {
	name := "disk-" + string(c.UID)
	must(os.MkdirAll(filepath.Join(i.base, node, "disks", name), 0o755))
	return i.people.Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: diskClass,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: diskDriver, VolumeHandle: name,
			VolumeAttributes: map[string]string{"node": node}}},
	}})
}
