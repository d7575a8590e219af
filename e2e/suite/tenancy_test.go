package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The example of manifests/examples/tenancy limits the claims of its namespace by class, and has only the scheduler choose
// nodes.
func TestTenancy(t *testing.T) {
	t.Parallel()
	e := ownPlane(t)
	const tenant = "tenant-a"
	s := e.Scene(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := s.Client.CoreV1().Namespaces().Create(s.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Apply("examples/tenancy"); err != nil {
		t.Fatal(err)
	}
	as := func(user string) kubernetes.Interface {
		config, err := e.Plane.RESTConfig()
		if err == nil {
			config = rest.CopyConfig(config)
			config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
			var c kubernetes.Interface
			if c, err = kubernetes.NewForConfig(config); err == nil {
				return c
			}
		}
		t.Fatal(err)
		return nil
	}
	author, scheduler := as("author"), as("system:kube-scheduler")
	var dry metav1.CreateOptions
	create := func(by kubernetes.Interface, c harness.Claim, notes ...string) (*corev1.PersistentVolumeClaim, error) {
		o := c.Object()
		o.Annotations = map[string]string{}
		for i := 0; i < len(notes); i += 2 {
			o.Annotations[notes[i]] = notes[i+1]
		}
		return by.CoreV1().PersistentVolumeClaims(tenant).Create(context.Background(), o, dry)
	}
	refused := func(err error, words string) error {
		switch {
		case err == nil:
			return errors.New("admitted")
		case !strings.Contains(err.Error(), words):
			return fmt.Errorf("refused with other words than %q: %w", words, err)
		}
		return nil
	}
	csi, onNode, chosen := harness.Claim{Class: harness.ClassCSI}, harness.AnnProvisionOnNode, harness.AnnSelectedNode
	dry.DryRun = []string{metav1.DryRunAll} // what is admitted before a limit is in force counts against the quota
	s.Eventually("the policy refuses", func() error {
		_, err := create(author, csi, onNode, "node-01")
		return refused(err, "hostpath-provisioner-node-choice=allowed")
	})
	s.Eventually("the policy refuses the scheduler's annotation", func() error {
		_, err := create(author, csi, chosen, "node-01")
		return refused(err, "only the scheduler may set")
	})
	for name, c := range map[string]harness.Claim{
		"maximum storage usage per PersistentVolumeClaim": {Class: harness.ClassCSI, Size: "51Gi"},
		"minimum storage usage per PersistentVolumeClaim": {Class: harness.ClassCSI, Size: "4Ki"},
		"exceeded quota": {Class: harness.ClassImmediate, Size: "1Gi"},
	} {
		s.Eventually(name, func() error {
			_, err := create(author, c)
			return refused(err, name)
		})
	}
	dry.DryRun = nil
	first, err := create(author, harness.Claim{Class: harness.ClassCSI, Size: "50Gi"})
	if err != nil {
		t.Fatal(err)
	}
	// The author may change other annotations, and neither write nor change the scheduler's.
	note := func(by kubernetes.Interface, key, value string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
		_, err := by.CoreV1().PersistentVolumeClaims(tenant).Patch(context.Background(), first.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if err := errors.Join(refused(note(author, chosen, "node-01"), "only the scheduler"), note(scheduler, chosen, "node-01"),
		note(author, "tenant", "a"), refused(note(author, chosen, "node-02"), "only the scheduler")); err != nil {
		t.Error(err)
	}
	if _, err := create(author, harness.Claim{Class: harness.ClassCSI, Size: "49Gi"}); err != nil {
		t.Error(err)
	}
	if _, err := create(author, harness.Claim{Class: harness.ClassCSI, Size: "2Gi"}); refused(err, "exceeded quota") != nil {
		t.Error(refused(err, "exceeded quota"))
	}
	label := []byte(`{"metadata":{"labels":{"hostpath-provisioner-node-choice":"allowed"}}}`)
	if _, err := s.Client.CoreV1().Namespaces().Patch(s.Context(), tenant, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("allowed", func() error {
		_, err := create(author, harness.Claim{Class: harness.ClassCSI, Size: "1Mi"}, onNode, "node-01", chosen, "node-01")
		return err
	})
}
