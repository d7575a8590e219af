package suite

import (
	"errors"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// admission is a rule of the cluster that stands in the way of new PVs.
type admission struct {
	words     string // of the API server's answer
	permanent bool   // only a person can change the answer
	create    func(s *harness.Scene, name, condition string)
	remove    func(s *harness.Scene, name string)
}

var admissions = map[string]admission{
	"a policy without a reason": {"needs a cost centre", true, func(s *harness.Scene, name, condition string) {
		fail := admissionv1.Fail
		_, err := s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(s.Context(), &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: creations(),
				}}},
				MatchConditions: []admissionv1.MatchCondition{{Name: "these", Expression: condition}},
				Validations:     []admissionv1.Validation{{Expression: "false", Message: "needs a cost centre"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		_, err = s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(s.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
	}, func(s *harness.Scene, name string) {
		a := s.Client.AdmissionregistrationV1()
		if err := errors.Join(a.ValidatingAdmissionPolicyBindings().Delete(s.Context(), name, metav1.DeleteOptions{}),
			a.ValidatingAdmissionPolicies().Delete(s.Context(), name, metav1.DeleteOptions{})); err != nil {
			s.Fatal(err)
		}
	}},
	"a webhook that is down": {"failed calling webhook", false, func(s *harness.Scene, name, condition string) {
		url, none, fail, second := "https://127.0.0.1:1/", admissionv1.SideEffectClassNone, admissionv1.Fail, int32(1)
		_, err := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(s.Context(), &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "down.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, SideEffects: &none, FailurePolicy: &fail,
				TimeoutSeconds: &second, AdmissionReviewVersions: []string{"v1"}, Rules: []admissionv1.RuleWithOperations{creations()},
				MatchConditions: []admissionv1.MatchCondition{{Name: "these", Expression: condition}},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
	}, func(s *harness.Scene, name string) {
		if err := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
	}},
}

func creations() admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"},
	}}
}

// begin has the API server refuse new PVs with the names of the volumes' PVs, and returns when it
// does. The returned function ends that.
func (a admission) begin(s *harness.Scene, volumes ...*hosted) (end func()) {
	s.Helper()
	condition := "false"
	for _, h := range volumes {
		condition += fmt.Sprintf(" || object.metadata.name == %q", h.pv.Name)
	}
	a.create(s, s.Name, condition)
	admitted := func() error {
		_, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), volumes[0].remade(), metav1.CreateOptions{DryRun: dry})
		if apierrors.IsAlreadyExists(err) { // names are compared last
			return nil
		}
		return err
	}
	s.Eventually("new PVs are refused", func() error {
		if admitted() == nil {
			return errors.New("not yet")
		}
		return nil
	})
	removed := false
	s.Cleanup(func() {
		if !removed {
			a.remove(s, s.Name)
		}
	})
	return func() {
		removed = true
		a.remove(s, s.Name)
		s.Eventually("new PVs are admitted", admitted)
	}
}

// remade is another PV of the volume's PV's name.
func (h *hosted) remade() *corev1.PersistentVolume {
	pv := h.pv.DeepCopy()
	pv.ObjectMeta = metav1.ObjectMeta{Name: h.pv.Name}
	pv.Spec.ClaimRef = nil
	return pv
}

// isFirst returns nil where the volume has its first PV, as it was, and no journal.
func (h *hosted) isFirst() error {
	pv, err := h.now()
	if err != nil {
		return err
	}
	if m := h.a.Volume(h.pv.Name).Migration; m != nil {
		return fmt.Errorf("journal %+v", m)
	}
	if pv.UID != h.pv.UID {
		return fmt.Errorf("PV %s, was %s", pv.UID, h.pv.UID)
	}
	return h.isOver()
}

// If the API server admits no new PV, no claim loses the one that it has.
func TestMigrateNotAdmitted(t *testing.T) {
	t.Parallel()
	for name, rule := range admissions {
		t.Run(name+", from the beginning", func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			all := []*hosted{newHosted(s, a), newHosted(s, a), newHosted(s, a)}
			end := rule.begin(s, all...)
			versions := map[string]string{}
			for _, h := range all {
				versions[h.pv.Name] = s.PV(h.pv.Name).ResourceVersion
			}
			a.Stop()
			a.RestartAs(bothModes("run"))
			want := "waiting"
			if rule.permanent {
				want = "refused"
			}
			s.Eventually(want, func() error { return a.MetricIs(3, "kubevirt_hpp_migration_volumes", fmt.Sprintf("verdict=%q", want)) })
			s.Checked(a)
			s.Once("nothing is written", func() error {
				for _, h := range all {
					if now := s.PV(h.pv.Name).ResourceVersion; now != versions[h.pv.Name] {
						return fmt.Errorf("PV %s was written", h.pv.Name)
					}
					if err := h.isFirst(); err != nil {
						return err
					}
				}
				return nil
			})
			for _, h := range all {
				h.wantSame()
				if rule.permanent {
					s.Eventually("event", func() error { return s.Warned(h.claim.UID, reasonMigrationStopped, rule.words) })
				}
			}
			end()
			a.Stop() // otherwise it asks again in some minutes
			a.Restart()
			for _, h := range all {
				s.Eventually("migrated", h.isCSI)
				h.wantSame()
			}
		})
		t.Run(name+", before the deletion", func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newHosted(s, a)
			h.killedBefore("delete", "run")
			end := rule.begin(s, h)
			a.RestartAs(bothModes("run"))
			s.Eventually("as it was", h.isFirst)
			h.wantSame()
			end()
			a.Stop() // otherwise it asks again in some minutes
			a.Restart()
			s.Eventually("migrated", h.isCSI)
			h.wantSame()
		})
		t.Run(name+", after the deletion", func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h, other := newHosted(s, a), newHosted(s, a)
			h.killedBefore("create", "run")
			if _, err := h.now(); err == nil {
				h, other = other, h
			}
			end := rule.begin(s, h)
			a.RestartAs(bothModes("run"))
			s.Eventually("stopped", func() error { return h.stopped(rule.words) })
			s.Checked(a)
			s.Once("no other begins", func() error { return firstError(other.isFirst(), h.stopped(rule.words)) })
			h.wantSame()
			end()
			for _, h := range []*hosted{h, other} {
				s.Eventually("migrated", h.isCSI)
				h.wantSame()
			}
		})
	}
}
