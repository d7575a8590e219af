package nodes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// stay ends a pod's script: it has done its work, and holds its volume.
const stay = "; touch /tmp/done; exec sleep infinity"

// pod says what is special about a pod. Its script runs with the claim's volume at /data, as that
// user, where there is one on that node; the pod is ready when the script has come to stay.
type pod struct {
	claim, script, hostname string
	user                    int64
	change                  func(*corev1.PodSpec) // the last word, if any
}

func (p pod) create(s *harness.Scene) *corev1.Pod {
	s.Helper()
	grace, yes, no := int64(1), true, false
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no,
			Containers: []corev1.Container{{
				Name: "main", Image: cluster.BusyboxImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Command:      []string{"sh", "-c", p.script + stay},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				ReadinessProbe: &corev1.Probe{
					PeriodSeconds: 1,
					ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/tmp/done"}}},
				},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.claim},
			}}},
		},
	}
	if p.hostname != "" {
		object.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.hostname}
	}
	if p.user != 0 {
		object.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &p.user, RunAsNonRoot: &yes}
	}
	if p.change != nil {
		p.change(&object.Spec)
	}
	made, err := s.Client.CoreV1().Pods(s.Namespace).Create(s.Context(), object, metav1.CreateOptions{})
	must(s, "create pod", err)
	return made
}

// run creates the pod, waits until its script has come to the end, and returns the pod as it is
// then.
func (p pod) run(s *harness.Scene) *corev1.Pod {
	s.Helper()
	return awaitReady(s, p.create(s).Name)
}

func awaitReady(s *harness.Scene, name string) (ready *corev1.Pod) {
	s.Helper()
	s.Eventually("pod "+name+" ready", func() (err error) {
		ready, err = s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err == nil && !isReady(ready) {
			err = fmt.Errorf("it is %s on %q; its events: %v", ready.Status.Phase, ready.Spec.NodeName, s.Events(ready.UID))
		}
		return err
	})
	return ready
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podOf is the DaemonSet's pod on the node; one that is being deleted does not count.
func podOf(s *harness.Scene, n *cluster.Node, set string) (*corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(harness.Namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || owner.Name != set || p.DeletionTimestamp != nil
	})
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("%s has %d pods of %s, want 1", n.Name, len(list.Items), set)
	}
	return &list.Items[0], nil
}

// end deletes the pod and waits until the kubelet is done with it.
func end(s *harness.Scene, p *corev1.Pod) {
	s.Helper()
	must(s, "delete pod", s.Client.CoreV1().Pods(p.Namespace).Delete(s.Context(), p.Name, metav1.DeleteOptions{}))
	awaitEnd(s, p)
}

// endSoon is end for a pod that ignores SIGTERM: it gets one second in place of its own grace
// period.
func endSoon(s *harness.Scene, p *corev1.Pod) {
	s.Helper()
	grace := int64(1)
	must(s, "delete pod", s.Client.CoreV1().Pods(p.Namespace).Delete(s.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	awaitEnd(s, p)
}

func awaitEnd(s *harness.Scene, p *corev1.Pod) {
	s.Helper()
	pods := s.Client.CoreV1().Pods(p.Namespace)
	s.Eventually("pod "+p.Name+" gone", func() error {
		now, err := pods.Get(s.Context(), p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && now.UID != p.UID:
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is %s", now.Status.Phase)
	})
}

// output is what the pod has printed.
func output(s *harness.Scene, p *corev1.Pod) string {
	s.Helper()
	text, err := s.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(s.Context())
	must(s, "read log of "+p.Name, err)
	return string(text)
}
