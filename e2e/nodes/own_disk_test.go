package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// ownDisk is a plain driver in a pod, whose pool names its mount point. Nobody calls it; its readyz
// is what is asked.
func ownDisk(s *harness.Scene, given, pool, mount string) *corev1.Pod {
	s.Helper()
	grace, no, yes := int64(1), false, true
	propagation, directory := corev1.MountPropagationHostToContainer, corev1.HostPathDirectory
	made, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "own-disk-"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no,
			NodeSelector: map[string]string{corev1.LabelHostname: one.Hostname},
			Containers: []corev1.Container{{
				Name: "agent", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: []string{"--endpoint=unix:///csi/csi.sock", "--nodeid=" + one.Name, "--http-address=:9898",
					fmt.Sprintf(`--datadir=[{"name":"local","path":%q,"mount":%q}]`, pool, mount)},
				SecurityContext: &corev1.SecurityContext{Privileged: &yes},
				VolumeMounts: []corev1.VolumeMount{{Name: "csi", MountPath: "/csi"},
					{Name: "given", MountPath: given, MountPropagation: &propagation}},
			}},
			Volumes: []corev1.Volume{{Name: "csi", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "given", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: given, Type: &directory}}}},
		},
	}, metav1.CreateOptions{})
	must(s, "create pod", err)
	return awaitReady(s, made.Name) // there is no probe: it runs
}

// wantPool waits until the agent of the pod says this of its pool.
func wantPool(s *harness.Scene, p *corev1.Pod, words string) {
	s.Helper()
	s.Eventually("pool "+words, func() error {
		if text, err := askPod(s, p, "readyz"); !strings.Contains(text, words) {
			return errors.Join(fmt.Errorf("readyz says %q", text), err)
		}
		return nil
	})
}

// A disk that is mounted on the node before the agent's pod starts, or later, or again, is told
// from what is the container's own: in a pod the directory that it is given is a mount point in any
// case.
func TestPoolOnItsOwnDisk(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	given := s.TempDir()
	at := filepath.Join(given, "disk")
	pool := filepath.Join(at, "csi")
	must(s, "make mount point", os.Mkdir(at, 0o755))
	d := newDisk(s, one, "ext4", at, 64<<20)
	// An agent has its pool open, so nobody unmounts it but lazily.
	unmount := func() error {
		_, err := onNode(one, "umount", "--lazy", at)
		d.mounted = d.mounted && err != nil
		return err
	}
	below := func() error {
		got, err := onNode(one, "ls", "-A", at)
		if err == nil && got != "" {
			err = errors.New("on the disk below there is " + got)
		}
		return err
	}

	p := ownDisk(s, given, pool, at)
	wantPool(s, p, at+" is no mount point")
	must(s, "nothing made", below())
	must(s, "mount", d.mount())
	wantPool(s, p, "[+] pool "+pool+" ok")
	must(s, "unmount", unmount())
	wantPool(s, p, at+" is no mount point")
	must(s, "nothing made", below())
	must(s, "mount again", d.mount())
	wantPool(s, p, "[+] pool "+pool+" ok")
	end(s, p)

	p = ownDisk(s, given, pool, at) // started with its disk
	wantPool(s, p, "[+] pool "+pool+" ok")
	end(s, p)

	p = ownDisk(s, at, pool, at) // the disk itself is what the pod is given
	wantPool(s, p, at+" is a volume of the container itself")
	must(s, "unmount", unmount()) // on the node: the container has it still
	wantPool(s, p, at+" is a volume of the container itself")
	end(s, p)
	must(s, "nothing made", below())
}
