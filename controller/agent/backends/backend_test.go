package backends

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
)

func TestCheck(t *testing.T) {
	b := backendsOf(t)
	block := corev1.PersistentVolumeBlock
	for what, row := range map[string]struct {
		claim         func(*corev1.PersistentVolumeClaim)
		class         func(*storagev1.StorageClass)
		hostPath, csi string // in the error; empty means offered
	}{
		"plain": {nil, nil, "", ""},
		"one pod": {func(p *corev1.PersistentVolumeClaim) {
			p.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}, nil, "use ReadWriteOnce", ""},
		"block":             {func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeMode = &block }, nil, "Filesystem", "Filesystem"},
		"unknown parameter": {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"pool": "x"} }, "", `"pool"`},
		"quota policy":      {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"quota": "x"} }, "best-effort", "best-effort"},
		"former quota":      {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"limit": "none"} }, "now named quota", "now named quota"},
		"inodes":            {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"inodes": "x"} }, "whole number", "whole number"},
		"quota":             {nil, func(s *storagev1.StorageClass) { s.Parameters = map[string]string{"quota": "required"} }, "", ""},
		"mount option":      {nil, func(s *storagev1.StorageClass) { s.MountOptions = []string{"discard"} }, "without them", `"discard"`},
		"good mount option": {nil, func(s *storagev1.StorageClass) { s.MountOptions = []string{"noatime"} }, `"noatime"`, ""},
	} {
		for className, want := range map[string]string{"wait": row.hostPath, "csi": row.csi} {
			claim, sc := classtest.Claim("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", className, ""), classtest.Class(className)
			if row.claim != nil {
				row.claim(claim)
			}
			if row.class != nil {
				row.class(sc)
			}
			err := b.Named(sc.Provisioner).Check(claim, sc)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v, want words %q", what, className, err, want)
			}
		}
	}
}
