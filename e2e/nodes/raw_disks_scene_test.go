package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// rawDisks is a test with disks of its own, in a directory of its own.
type rawDisks struct {
	*harness.Scene
	dir string
}

// link gives the disk to a node, until the test ends, and returns the path. Its name begins with
// that of the node's filter.
func (s *rawDisks) link(disk *harness.Loop, name string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	must(s.Scene, "make directory", os.MkdirAll(s.dir, 0o755))
	must(s.Scene, "link disk", os.Symlink(disk.Device, path))
	s.Cleanup(func() { _ = os.Remove(path) })
	return path
}

// offered waits until the path has an Available PV with another UID than `not`, and returns it.
func (s *rawDisks) offered(n *cluster.Node, path string, not types.UID) (found *corev1.PersistentVolume) {
	s.Helper()
	s.Eventually(path+" offered", func() error {
		list, err := s.Client.CoreV1().PersistentVolumes().List(s.Context(), metav1.ListOptions{LabelSelector: disksOfNode + "=" + n.Name})
		if err != nil {
			return err
		}
		for i, pv := range list.Items {
			if pv.Spec.Local.Path == path && pv.UID != not && pv.Status.Phase == corev1.VolumeAvailable {
				found = &list.Items[i]
				return nil
			}
		}
		devices, err := s.devices(n)
		return fmt.Errorf("no such PV; devices %+v %w", devices, err)
	})
	return found
}

// devices asks the process of the node as the program itself does.
func (s *rawDisks) devices(n *cluster.Node) (all []harness.DiskReport, err error) {
	p, err := podOf(s.Scene, n, disksSet)
	if err != nil {
		return nil, err
	}
	out, err := kubectl("", "-n", harness.Namespace, "exec", p.Name, "--", "/hostpath-provisioner", "disks", "inspect", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	return all, err
}

// state waits until the device has the state, for a reason with the words.
func (s *rawDisks) state(n *cluster.Node, path, state, words string) {
	s.Helper()
	s.Eventually(path+" "+state, func() error {
		all, err := s.devices(n)
		for _, d := range all {
			if d.Device == path && d.State == state && strings.Contains(d.Why, words) {
				return nil
			}
		}
		return fmt.Errorf("it is not: %+v %w", all, err)
	})
}

// claimFor makes a claim for the PV.
func (s *rawDisks) claimFor(name string, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	s.Helper()
	class := disksClass
	claim, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Create(s.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeMode: pv.Spec.VolumeMode, VolumeName: pv.Name, AccessModes: pv.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}, metav1.CreateOptions{})
	must(s.Scene, "create claim", err)
	return claim
}

// asBlock makes a pod use its claim as the block device /dev/tenant.
func asBlock(p *corev1.PodSpec) {
	p.Containers[0].VolumeMounts = nil
	p.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/tenant"}}
}

var (
	// writeBlock is a script of a tenant that writes the secret, to the beginning and elsewhere.
	writeBlock = fmt.Sprintf("set -e; for at in 0 %d; do printf '%s' | dd of=/dev/tenant bs=1 seek=$at conv=notrunc,fsync; done", at, secret)
	// readBlock is one of a tenant that reads only zeros.
	readBlock = `set -e; test -z "$(tr -d '\0' </dev/tenant | head -c 1)"`
)
