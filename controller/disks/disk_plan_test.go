//go:build disk

package disks

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
)

// A plan is as old as what was read: apply wipes nothing if the PV or the device changed since.
func TestDiskPlanIsOutdated(t *testing.T) {
	for name, change := range map[string]func(b *bench, pv *corev1.PersistentVolume, other string){
		"the PV is bound again": func(b *bench, pv *corev1.PersistentVolume, _ string) {
			b.phase(b.named(pv.Name), corev1.VolumeBound)
		},
		"the PV is made again": func(b *bench, pv *corev1.PersistentVolume, _ string) {
			again := b.named(pv.Name)
			pvs := b.client.CoreV1().PersistentVolumes()
			if err := pvs.Delete(b.Context(), pv.Name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
			if _, err := pvs.Create(b.Context(), again, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		},
		"another disk is at the path": func(b *bench, _ *corev1.PersistentVolume, other string) { b.relink(other, "disk") },
		"a claim names the PV": func(b *bench, pv *corev1.PersistentVolume, _ string) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "d"},
				Spec: corev1.PersistentVolumeClaimSpec{VolumeName: pv.Name}}
			claims := b.client.CoreV1().PersistentVolumeClaims("a")
			if _, err := claims.Create(b.Context(), claim, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			pv := b.pv("pv-1")
			b.stop()
			other, err := os.Readlink(b.attach("spare", 8<<20))
			if err != nil {
				t.Fatal(err)
			}
			b.write("secret")
			writeTo(t, other, "precious", dataAt)
			b.claimed(pv, corev1.VolumeReleased)
			c := New(Config{Client: apitest.Listing(b.client), Events: b.recorder, Node: "n", Namespace: "ns",
				Interval: time.Minute})
			decisions := plan(b.find(c))
			if len(decisions) != 1 || decisions[0].action != release {
				t.Fatalf("planned: %q", outcomes(decisions))
			}
			change(b, pv, other)
			c.apply(t.Context(), decisions)
			c.running.Wait()
			if got := c.wiped.Load(); got != 0 {
				t.Errorf("%d bytes were wiped", got)
			}
			has(t, b.device, "secret", dataAt)
			has(t, other, "precious", dataAt)
			b.named(pv.Name)
		})
	}
}

// find reads what a pass reads.
func (b *bench) find(c *Controller) found {
	b.Helper()
	node, err := b.client.CoreV1().Nodes().Get(b.Context(), "n", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := c.readSpec(b.Context(), node)
	if err != nil {
		b.Fatal(err)
	}
	pvs, err := c.ownPVs(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	f := found{node: node, spec: s, pvs: pvs, now: time.Now()}
	if err := f.readDevices(hostDevices{}); err != nil {
		b.Fatal(err)
	}
	return f
}
