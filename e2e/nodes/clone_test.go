package nodes

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Every copy is made on the node of its source, although the scheduler prefers the other one, and its pod
// runs there without a hand. Every second pod has an empty claim, too.
func TestClone(t *testing.T) {
	s, source, delayed := cloned(t)
	copyIntoPods(s, source, delayed, 20)
	followCopies(s, source.Name, delayed)
	// A class that binds at once needs no pod.
	claim := cloneOf(s, source, cloneClass(s, storagev1.VolumeBindingImmediate))
	reads(s, csiPath(local.Nodes()[0], s.Bound(claim).Name, "file"), "of the source\n")
}

// TestCloneHundred is TestClone for as many pods as a node may have.
func TestCloneHundred(t *testing.T) {
	s, source, delayed := cloned(t)
	for range 5 {
		copyIntoPods(s, source, delayed, 20)
	}
}

// cloned returns a volume with data on the first node, and a class for copies that wait for their pods.
func cloned(t *testing.T) (s *harness.Scene, source *corev1.PersistentVolumeClaim, class string) {
	t.Helper()
	t.Cleanup(func() {
		undeployCSI(t)
		redeploy(t)
	})
	csiAlone.deploy(t)
	s = newScene(t)
	class = cloneClass(s, storagev1.VolumeBindingWaitForFirstConsumer)
	source = s.Create(harness.Claim{Class: class})
	end(s, pod{claim: source.Name, hostname: local.Nodes()[0].Hostname, script: "echo of the source >/data/file"}.run(s))
	return s, source, class
}

// copyIntoPods makes so many copies at once, each with a pod for which the scheduler prefers the second node.
func copyIntoPods(s *harness.Scene, source *corev1.PersistentVolumeClaim, class string, copies int) {
	s.Helper()
	here, other := local.Nodes()[0], local.Nodes()[1]
	names, pods := make([]string, copies), make([]string, copies)
	for i := range copies {
		claim, more := cloneOf(s, source, class), ""
		if i%2 == 1 {
			more = s.Create(harness.Claim{Class: class}).Name
		}
		names[i] = claim.Name
		pods[i] = pod{claim: claim.Name, script: "cat /data/file", change: func(spec *corev1.PodSpec) { prefers(spec, other, more) }}.create(s).Name
	}
	for i, name := range pods {
		p := awaitReady(s, name)
		if got := output(s, p); p.Spec.NodeName != here.Name || got != "of the source\n" {
			s.Errorf("copy %d is on %s and has %q; its claim has the events %v", i, p.Spec.NodeName, got, s.Events(claimNamed(s, names[i]).UID))
		}
	}
}

// followCopies makes a copy as docs/copies.md has it, and reads it in a pod.
func followCopies(s *harness.Scene, source, class string) {
	s.Helper()
	r := follow(s, "docs/copies.md")
	r.values = map[string]string{"NAMESPACE": s.Namespace, "CLASS": class, "SIZE": "10Mi", "CLAIM": source}
	r.run("kubectl -n NAMESPACE apply")
	r.end()
	if got := output(s, pod{claim: "copy", script: "cat /data/file"}.run(s)); got != "of the source\n" {
		s.Errorf("the copy of docs/copies.md has %q", got)
	}
}

// cloneClass makes a class whose volumes may be copied byte by byte, and returns its name.
func cloneClass(s *harness.Scene, mode storagev1.VolumeBindingMode) string {
	s.Helper()
	api := s.Client.StorageV1().StorageClasses()
	class, err := api.Create(s.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "hostpath-clone-"}, Provisioner: csiDriver, VolumeBindingMode: &mode,
		Parameters: map[string]string{"storagePool": "local", "copy": "allowed"},
	}, metav1.CreateOptions{})
	must(s, "create class", err)
	s.Cleanup(func() { _ = api.Delete(context.Background(), class.Name, metav1.DeleteOptions{}) })
	return class.Name
}

func cloneOf(s *harness.Scene, source *corev1.PersistentVolumeClaim, class string) *corev1.PersistentVolumeClaim {
	s.Helper()
	return s.Create(harness.Claim{Class: class, Edit: func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source.Name}
	}})
}

// prefers has the scheduler prefer that node by far, and adds another claim to the pod, unless it is "".
func prefers(spec *corev1.PodSpec, n *cluster.Node, more string) {
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Hostname}}},
		}}},
	}}
	if more != "" {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "more", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: more}}})
		c := &spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "more", MountPath: "/more"})
	}
}
