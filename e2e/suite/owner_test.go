package suite

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// directory is where a PV's volume lies.
func directory(a *harness.Agent, pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI != nil {
		return filepath.Join(a.Pool, pv.Spec.CSI.VolumeHandle)
	}
	return pv.Spec.HostPath.Path
}

// A class chooses mode, owner and group of its volumes' directories, with either kind of PV.
func TestModeAndOwner(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	// Without storagePool, a CSI class has the agent's pool legacy, too.
	parameters := func(given map[string]string) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) { c.Parameters = given }
	}
	asked := parameters(map[string]string{"mode": "2750", "uid": "1000", "gid": "2000"})
	for kind, claim := range map[string]harness.Claim{
		"hostPath": {Class: s.Class("owned", asked), Node: a.Node.Name},
		"csi":      {Class: s.CSIClass("owned-csi", asked), Selected: a.Node.Name},
	} {
		made := s.Create(claim)
		s.Eventually(kind+": bound", func() error { return s.IsBound(made) })
		path := directory(a, s.PV(harness.PVName(made)))
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Mode&0o7777 != 0o2750 || st.Uid != 1000 || st.Gid != 2000 {
			t.Errorf("%s: mode %o, uid %d, gid %d, %v", kind, st.Mode&0o7777, st.Uid, st.Gid, err)
		}
	}
	for key, value := range map[string]string{"mode": "4755", "uid": "root", "gid": "-1"} {
		wrong := parameters(map[string]string{key: value})
		for suffix, claim := range map[string]harness.Claim{
			"host": {Class: s.Class("wrong-"+key, wrong), Node: a.Node.Name},
			"csi":  {Class: s.CSIClass("wrong-csi-"+key, wrong), Selected: a.Node.Name},
		} {
			refused := s.Create(claim)
			s.AwaitWarning(a, refused.UID, harness.ReasonFailed, fmt.Sprintf(`parameter %s is "%s"; it must be an? `, key, value), "a class cannot be edited")
			if err := s.IsPending(refused); err != nil {
				t.Errorf("%s: %v", suffix, err)
			}
		}
	}
}
