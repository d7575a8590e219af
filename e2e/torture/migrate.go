package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations of docs/migration.md and docs/on-disk-format.md.
const (
	annMigrate  = "hostpath-provisioner.kubevirt.io/migrate"
	annReplaces = "hostpath-provisioner.kubevirt.io/replaces"
	annPolicy   = "hostpath-provisioner.kubevirt.io/reclaim-policy"
)

// unnoticed is how long a volume may have no PV while tenants work: a refusal, an API server that
// is away, an agent that is killed again and again.
const unnoticed = 3 * time.Minute

// move asks for the other kind of PV, and at times for the one that there is. A volume that was
// created as a CSI volume stays one.
func (t *tenant) move(cl *claim) {
	to := "run"
	switch pv, err := t.readPV(cl.pv()); {
	case err != nil && !apierrors.IsNotFound(err):
		t.Fatalf("read PV %s: %v", cl.pv(), err)
	case err != nil, pv.Spec.CSI != nil && pv.Annotations[annReplaces] == "":
		return
	case t.rng.IntN(8) == 0:
		to = "off"
	case pv.Spec.CSI != nil:
		to = "back"
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annMigrate, to)
	err := t.insist("annotate PV", func(ctx context.Context) error {
		_, err := t.Client.CoreV1().PersistentVolumes().Patch(ctx, cl.pv(), types.MergePatchType, patch,
			metav1.PatchOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) { // it is being replaced
		t.Fatalf("annotate PV %s: %v", cl.pv(), err)
	}
	t.Logf("%s: migrate %s: %v", cl.name, to, err)
}

// countMoves counts the PVs that were replaced. A campaign that replaced none has proved nothing.
func (c *campaign) countMoves() {
	if !c.Migrate {
		return
	}
	events, err := c.Client.CoreV1().Events(c.Namespace).List(c.Context(),
		metav1.ListOptions{FieldSelector: "reason=Migrated"})
	if err != nil {
		c.Fatalf("list events: %v", err)
	}
	if c.moves = int64(len(events.Items)); c.moves == 0 {
		c.Errorf("no PV was replaced")
	}
}

// policyOf returns a PV's policy, or the one that it has again when its migration is over.
func policyOf(pv *corev1.PersistentVolume) corev1.PersistentVolumeReclaimPolicy {
	if later := pv.Annotations[annPolicy]; later != "" {
		return corev1.PersistentVolumeReclaimPolicy(later)
	}
	return pv.Spec.PersistentVolumeReclaimPolicy
}

// setPolicyBetweenMoves is setPolicy for a PV that may be replaced at any time: the policy of a PV
// with a migration under way is not the tenant's. It changes the version that it has read, and
// reads what became of it.
func (c *campaign) setPolicyBetweenMoves(cl *claim, policy corev1.PersistentVolumeReclaimPolicy) {
	tried := false
	for begin := time.Now(); ; {
		pv, err := c.readPV(cl.pv())
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			c.Fatalf("read PV %s: %v", cl.pv(), err)
		case err == nil && pv.Annotations[annPolicy] == "" && pv.Spec.PersistentVolumeReclaimPolicy == policy:
			cl.policy = policy
			return
		case err == nil && pv.Annotations[annPolicy] == "":
			tried = true
			err = c.patchVersion(pv, policy)
		}
		switch {
		case err == nil, apierrors.IsConflict(err):
		case cl.directory == "": // there was no PV, as far as the tenant knows; the audit releases one that is there
			cl.policy = policy
			return
		case tried && policy == corev1.PersistentVolumeReclaimDelete && cl.deleted:
			// an earlier try had it deleted, or it is being replaced
			cl.policy = policy
			return
		case time.Since(begin) > unnoticed:
			c.find(Lost, "the PV %s of claim %s, policy %s, is gone; its directory was %s", cl.pv(), cl.name, cl.policy,
				cl.directory)
			return
		}
		if !pause(c.Context(), 300*time.Millisecond) {
			return
		}
	}
}

func (c *campaign) readPV(name string) (pv *corev1.PersistentVolume, err error) {
	err = c.insist("read PV", func(ctx context.Context) (err error) {
		pv, err = c.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return pv, err
}

// patchVersion sets the policy of a version of a PV. The error is a conflict if there is a newer
// one, perhaps by this call.
func (c *campaign) patchVersion(pv *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"persistentVolumeReclaimPolicy":%q}}`,
		pv.UID, pv.ResourceVersion, policy)
	var conflict error
	err := c.insist("patch PV", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		if conflict = nil; apierrors.IsConflict(err) {
			conflict, err = err, nil
		}
		return err
	})
	if err == nil {
		return conflict
	}
	return err
}

// refusals are the ways in which the API server refuses new PVs, by the name of an object: before
// the old PV is deleted, and, because its dry runs are admitted, after that. An answer is
// permanent, or a webhook is down.
var refusals = []struct{ name, condition, kind string }{
	{"refused", "true", "policy"},
	{"refused-late", "!request.dryRun", "policy"},
	{"unanswered", "true", "webhook"},
	{"unanswered-late", "!request.dryRun", "webhook"},
}

// refusePVs refuses the PVs that replace others, for a while and again, and admits them in the end.
func (c *campaign) refusePVs(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, between(rng, 2*time.Second, 12*time.Second)) {
		r := refusals[rng.IntN(len(refusals))]
		condition := fmt.Sprintf("has(object.metadata.annotations) && %q in object.metadata.annotations && %s", annReplaces,
			r.condition)
		create, remove := c.policy(r.name, condition)
		if r.kind == "webhook" {
			create, remove = c.webhook(r.name, condition)
		}
		c.ask("create "+r.name, create)
		c.fault("new PVs are %s", r.name)
		pause(ctx, between(rng, time.Second, 6*time.Second))
		c.ask("delete "+r.name, remove)
		c.Logf("new PVs are admitted")
	}
}

// ask insists on a call that may have been made already.
func (c *campaign) ask(what string, call func(context.Context) error) {
	if err := c.insist(what, call); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		c.Fatalf("%s: %v", what, err)
	}
}

func newPVs() admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"},
		}}
}

// policy returns what creates and deletes a policy that refuses PVs.
func (c *campaign) policy(name, condition string) (create, remove func(context.Context) error) {
	policies, bindings := c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	meta := metav1.ObjectMeta{Name: name}
	create = func(ctx context.Context) error {
		_, err := policies.Create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta,
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: newPVs()}}},
				MatchConditions:  []admissionv1.MatchCondition{{Name: "these", Expression: condition}},
				Validations:      []admissionv1.Validation{{Expression: "false", Message: "refused by the campaign"}},
			}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = bindings.Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta,
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			}}, metav1.CreateOptions{})
		return err
	}
	remove = func(ctx context.Context) error {
		if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return policies.Delete(ctx, name, metav1.DeleteOptions{})
	}
	return create, remove
}

// webhook returns what creates and deletes a webhook that does not answer.
func (c *campaign) webhook(name, condition string) (create, remove func(context.Context) error) {
	hooks := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	create = func(ctx context.Context) error {
		url, none, fail, second := "https://127.0.0.1:1/", admissionv1.SideEffectClassNone, admissionv1.Fail, int32(1)
		_, err := hooks.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "down.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, SideEffects: &none,
				FailurePolicy:  &fail,
				TimeoutSeconds: &second, AdmissionReviewVersions: []string{"v1"}, Rules: []admissionv1.RuleWithOperations{newPVs()},
				MatchConditions: []admissionv1.MatchCondition{{Name: "these", Expression: condition}},
			}}}, metav1.CreateOptions{})
		return err
	}
	return create, func(ctx context.Context) error { return hooks.Delete(ctx, name, metav1.DeleteOptions{}) }
}
