package simulation

import (
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// podWrites is a pod that writes a file into the volume of its claim.
func (j *judge) podWrites(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.pvs[pv.Name]
	if v == nil {
		return
	}
	v.bound = time.Now()
	if j.backup[claim.Name] == nil {
		j.backup[claim.Name] = pv.DeepCopy()
	}
	j.copied(v, claim)
	file := filepath.Join(j.place(v), dataFile)
	have, err := os.ReadFile(file)
	mark := string(claim.UID)
	switch {
	case v.handed:
	case v.recovered && err == nil && v.name == claim.Namespace+"/"+claim.Name:
		j.sameTenant(v, "given")
		v.claim, v.recovered, v.given, v.removed = claim.UID, false, "", time.Time{}
	case err == nil && string(have) != mark && v.claim != claim.UID && v.wanted == "":
		if owner := j.ofMark(string(have)); owner != nil && owner.claim != claim.UID && !owner.handed {
			j.blameLocked("BYTES", "claim %s gets a volume that has the data of claim %s", claim.Name, owner.name)
		}
	case err != nil:
		if os.WriteFile(file, []byte(mark), 0o644) == nil {
			v.mark = mark
		}
	}
}

// dataFile is what a pod writes into its volume.
const dataFile = "data"

func (j *judge) ofMark(mark string) *volume {
	for _, v := range j.volumes {
		if v.mark == mark {
			return v
		}
	}
	return nil
}

// place is where the directory of a volume is.
func (j *judge) place(v *volume) string {
	n := j.world.node(v.node)
	if n == nil {
		return filepath.Join(j.world.base, v.node, v.pool, v.dir)
	}
	if v.path != "" {
		return n.real(v.disk, v.path)
	}
	return filepath.Join(n.dir(v.pool), v.dir)
}

// sized judges the size that a process writes on a claim or a PV. The caller holds the lock.
func (j *judge) sized(x apiserver.Write) {
	path := map[string][]string{"persistentvolumes": {"spec", "capacity", "storage"}, "persistentvolumeclaims": {"status", "capacity", "storage"}}[x.Resource]
	if path == nil || x.Who == "god" || field(x.New, path...) == field(x.Old, path...) {
		return
	}
	if size, err := resource.ParseQuantity(field(x.New, path...)); err == nil && size.Cmp(noDisk) >= 0 {
		j.blameLocked("SIZE", "%s has %s, which %s wrote", x.Name, size.String(), x.Who)
	}
}

// noDisk is more than a disk of a node has.
var noDisk = resource.MustParse("1Pi")
