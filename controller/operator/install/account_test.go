package install

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/constraints"
)

// A holder that outlives the resource keeps what Kubernetes needs to create its pod again: the
// account without the owner, also where that was deleted with its dependents first, and the
// constraints. The roles go. With the last holder all of it goes.
func TestAccountOfHoldersThatStay(t *testing.T) {
	scc := &unstructured.Unstructured{}
	scc.SetGroupVersionKind(constraints.Kind)
	scc.SetName(constraints.Agents)
	scc.SetLabels(map[string]string{apply.ManagedBy: apply.Owner})
	o := installedOn(t, "n1")
	o.add(scc.DeepCopy())
	pv := pvOf("b")
	o.add(pv)
	has := func(what client.Object) bool {
		err := o.client.Get(t.Context(), client.ObjectKeyFromObject(what), what)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	in := metav1.ObjectMeta{Namespace: "ns", Name: "hostpath-provisioner-admin-csi"}
	for _, foreground := range []bool{false, true} {
		o.deletes(map[string]string{forceAnnotation: "true"})
		o.endAgents("n1")
		if foreground {
			if err := o.client.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: in}); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			o.pass("hpp")
		}
		o.wantGone()
		o.wantHolder("n1", "1")
		account := &corev1.ServiceAccount{ObjectMeta: in}
		if !has(account) || len(account.OwnerReferences) != 0 || !has(scc.DeepCopy()) {
			t.Errorf("deleted in the foreground %t: the account %+v", foreground, account.ObjectMeta)
		}
		if has(&rbacv1.RoleBinding{ObjectMeta: in}) || has(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: in.Name}}) {
			t.Errorf("deleted in the foreground %t: the account may still act", foreground)
		}
		o.add(resource("hpp", time.Hour, poolA, poolB))
		o.pass("hpp")
		o.counts(1, 0)
		o.add(o.agentOn("n1"))
		o.pass("hpp")
		if account = (&corev1.ServiceAccount{ObjectMeta: in}); !has(account) || len(account.OwnerReferences) != 1 {
			t.Errorf("another resource does not own the account: %v", account.OwnerReferences)
		}
	}
	if err := o.client.Delete(t.Context(), pv); err != nil {
		t.Fatal(err)
	}
	o.deletes(nil)
	o.endAgents("n1")
	for range 20 {
		o.pass("hpp")
		o.jobsComplete()
	}
	o.wantGone()
	o.wantHolder("n1", "none")
	if has(&corev1.ServiceAccount{ObjectMeta: in}) || has(scc.DeepCopy()) {
		t.Error("the account, or the constraints, are still there")
	}
}

// jobsComplete has the pods of all Jobs succeed.
func (o operated) jobsComplete() {
	o.Helper()
	var jobs batchv1.JobList
	if err := o.client.List(o.Context(), &jobs); err != nil {
		o.Fatal(err)
	}
	for _, job := range jobs.Items {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := o.client.Status().Update(o.Context(), &job); err != nil {
			o.Fatal(err)
		}
	}
}
