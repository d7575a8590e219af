package suite

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// handmadeCSI is a CSI PV of the agent's node as the agent would have made it for a claim that is
// gone. What it names is for the caller to make.
func handmadeCSI(s *harness.Scene, a *harness.Agent, uid types.UID, claim string) *corev1.PersistentVolume {
	pv := handmadePV(s, a, uid, claim)
	pv.Annotations = map[string]string{harness.AnnProvisionedBy: harness.Driver}
	pv.Spec.StorageClassName = harness.ClassCSI
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
		Driver: harness.Driver, VolumeHandle: pv.Name, FSType: "xfs",
		VolumeAttributes: map[string]string{harness.StoragePool: harness.LocalPool},
	}}
	pv.Spec.NodeAffinity = topologyAffinity(a.Node.Name)
	return pv
}

// save puts a PV there as it is.
func save(s *harness.Scene, pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	s.Helper()
	made, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), pv, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return made
}

// One process serves both kinds of claims, from one pool or from one inside the other. No PV of one
// kind gets at a volume of the other.
func TestBothShapes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		inner string // of the CSI pool, below PV_DIR
		pool  string // the name of the CSI pool
		outer string // and of the other
	}{{"one pool", "", "legacy", "legacy"}, {"one inside the other", "csi", harness.LocalPool, "hostpath"}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			o := harness.Options{CSI: "hostpath,csi"}
			csiPool := filepath.Join(node.Pool, test.inner)
			if test.inner != "" {
				o.DataDir = harness.Datadir(test.pool, csiPool)
				s.Write(node.Pool, "unrelated", nil) // the directory that the inner one lies in
			}
			a := s.Agent(node, o)
			class := s.CSIClass("both", func(c *storagev1.StorageClass) {
				if test.inner == "" {
					c.Parameters = nil
				}
			})
			host, csi := s.Create(harness.Claim{Node: node.Name}), s.Create(harness.Claim{Class: class, Selected: node.Name})
			hostPV, csiPV := s.Bound(host), s.Bound(csi)
			s.Write(hostPV.Spec.HostPath.Path, "data", []byte("precious"))
			s.Write(filepath.Join(csiPool, csiPV.Spec.CSI.VolumeHandle), "data", []byte("precious"))
			if got := csiPV.Spec.CSI.VolumeAttributes[harness.StoragePool]; got != test.pool {
				t.Errorf("the PV names pool %q, want %q", got, test.pool)
			}
			recorded(s, node.Pool, host)
			recorded(s, csiPool, csi)
			wantApart(s, a, csiPool, test.outer, hostPV, csiPV)

			s.Delete(host)
			s.Gone(hostPV.Name)
			if err := handleOf(csiPool, csiPV); err != nil {
				t.Error(err)
			}
			recorded(s, csiPool, csi)
			again := s.Create(harness.Claim{Node: node.Name})
			path := s.Bound(again).Spec.HostPath.Path
			s.Delete(csi)
			s.Gone(csiPV.Name)
			s.Eventually("directory gone", func() error {
				return harness.Missing(filepath.Join(csiPool, csiPV.Spec.CSI.VolumeHandle))
			})
			if err := harness.Exists(path); err != nil {
				t.Error(err)
			}
		})
	}
}

// recorded waits until inspect shows the claim's volume in the pool, bound.
func recorded(s *harness.Scene, pool string, claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	s.Eventually("record of "+claim.Name, func() error {
		all := s.Inspect(pool).Volumes
		if !slices.ContainsFunc(all, func(v harness.ReportVolume) bool {
			return v.Owner.UID == string(claim.UID) && v.PV == harness.PVName(claim) && v.State == "bound" && !v.Missing
		}) {
			return fmt.Errorf("inspect shows %+v", all)
		}
		return nil
	})
}

// recordPath is where a pool has the record of the volume in that directory.
func recordPath(pool, directory string) string {
	return filepath.Join(pool, ".hostpath-provisioner", "records", directory)
}

// wantApart lets a PV of each kind name a volume of the other, and a hostPath one the other pool
// besides. They are left alone, each with one event. outer is the name of the pool of hostPath
// claims.
func wantApart(s *harness.Scene, a *harness.Agent, csiPool, outer string, hostPV, csiPV *corev1.PersistentVolume) {
	s.Helper()
	victim := filepath.Join(csiPool, csiPV.Spec.CSI.VolumeHandle)
	host := handmadePV(s, a, uuid.NewUUID(), "gone")
	host.Spec.HostPath.Path = victim
	inner := handmadePV(s, a, uuid.NewUUID(), "gone")
	inner.Spec.HostPath.Path = filepath.Join(a.Pool, "csi")
	csi := handmadeCSI(s, a, uuid.NewUUID(), "gone")
	csi.Spec.CSI.VolumeAttributes[harness.StoragePool] = outer
	csi.Spec.CSI.VolumeHandle = filepath.Base(hostPV.Spec.HostPath.Path)
	csi.Annotations[harness.AnnPool] = a.Inspect().Pool.ID
	var pvs []*corev1.PersistentVolume
	for _, pv := range []*corev1.PersistentVolume{host, inner, csi} {
		pvs = append(pvs, save(s, pv))
	}
	said := func() error {
		for _, pv := range pvs {
			if err := s.Warned(pv.UID, harness.ReasonRefused, a.Node.Name); err != nil {
				return fmt.Errorf("PV %s: %w", pv.Name, err)
			}
		}
		return nil
	}
	s.Eventually("warnings", said)
	for _, pv := range pvs {
		s.Released(pv.Name)
	}
	s.Holds(a, "left alone", func() error {
		for _, pv := range pvs {
			if s.IsGone(pv.Name) == nil {
				return fmt.Errorf("PV %s is gone", pv.Name)
			}
		}
		return firstError(said(), harness.Exists(filepath.Join(victim, "data")),
			harness.Exists(filepath.Join(hostPV.Spec.HostPath.Path, "data")))
	})
}

// Two processes on one node, one for each kind of claims, with a pool each: neither knows of the
// other's.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	path := s.Path("pools", "csi")
	host := s.Start(node, harness.Options{})
	csi := s.Start(node, harness.Options{CSI: "csi", DataDir: harness.Datadir(harness.LocalPool, path), Pool: path})
	host.AwaitReady()
	csi.AwaitReady()
	hostClaim := s.Create(harness.Claim{Node: node.Name})
	csiClaim := csiBound(s, csi)
	s.Bound(hostClaim)
	wantTree(s, host.Pool, harness.PVName(hostClaim))
	wantTree(s, csi.Pool, harness.PVName(csiClaim))
	for _, a := range []*harness.Agent{host, csi} { // what there is is listed again
		a.Stop()
		a.Restart()
		a.AwaitReady()
	}
	hostPV, csiPV := s.PV(harness.PVName(hostClaim)), s.PV(harness.PVName(csiClaim))
	s.Delete(hostClaim)
	s.Delete(csiClaim)
	s.Gone(hostPV.Name)
	s.Gone(csiPV.Name)
	for _, object := range []types.UID{hostClaim.UID, csiClaim.UID, hostPV.UID, csiPV.UID} {
		if err := s.Unwarned(object); err != nil {
			t.Error(err)
		}
	}
	if err := host.NeverMentions(csiClaim.Name, string(csiClaim.UID)); err != nil {
		t.Error(err)
	}
	if err := csi.NeverMentions(hostClaim.Name, string(hostClaim.UID)); err != nil {
		t.Error(err)
	}
}

// Two processes that were given one pool by mistake: the second waits and says for whom, and its
// claims wait with it.
func TestTwoProcessesOnePool(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	host := s.Agent(node, harness.Options{})
	csi := s.Start(node, local(node))
	csi.AwaitUnready(`in use(.|\n)*` + node.Name)
	claims := s.Queue(csi, harness.QueueClaims)
	claim := s.Create(harness.Claim{Class: harness.ClassCSI, Selected: node.Name})
	s.Eventually("the second agent refused the claim", claims.Handled)
	s.Once("pool of another agent", func() error {
		return firstError(host.Ready(), s.IsPending(claim))
	})
	wantTree(s, node.Pool)
	s.Bound(s.Create(harness.Claim{Node: node.Name}))
	host.Stop()
	csi.AwaitReady()
	s.Bound(claim)
}
