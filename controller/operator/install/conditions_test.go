package install

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// kstatus reads a resource as sigs.k8s.io/cli-utils/pkg/kstatus does, on which Helm and Flux rely:
// the generation, then the conditions Reconciling and Stalled, then Ready.
func kstatus(generation int64, status v1beta1.HostPathProvisionerStatus) string {
	is := map[v1beta1.ConditionType]bool{}
	for _, c := range status.Conditions {
		is[c.Type] = c.Status == yes
	}
	_, known := is[v1beta1.ReadyCondition]
	switch {
	case status.ObservedGeneration != 0 && status.ObservedGeneration != generation, is[v1beta1.Reconciling]:
		return "InProgress"
	case is[v1beta1.Stalled]:
		return "Failed"
	case known && !is[v1beta1.ReadyCondition]:
		return "InProgress"
	}
	return "Current"
}

func TestHealth(t *testing.T) {
	r := &Reconciler{Now: time.Now}
	served := v1beta1.HostPathProvisionerStatus{}
	r.conditions(&served, verdict{reason: "Complete", message: "Application Available"}, nil)
	for name, row := range map[string]struct {
		before v1beta1.HostPathProvisionerStatus
		verdict
		want string
	}{
		"deploying":                 {verdict: verdict{reason: "DeployStarted"}, want: "InProgress"},
		"healthy":                   {verdict: verdict{reason: "Complete"}, want: "Current"},
		"upgrade":                   {served, verdict{reason: "UpgradeStarted"}, "InProgress"},
		"rollout":                   {served, verdict{reason: rolloutStarted}, "InProgress"},
		"an agent is not ready":     {served, verdict{reason: "Degraded"}, "InProgress"},
		"the API server is away":    {served, verdict{reason: "ReconcileFailed"}, "InProgress"},
		"a claim is not bound":      {served, verdict{reason: "StoragePoolNotReady"}, "InProgress"},
		"a pool of block devices":   {served, verdict{reason: "StoragePoolUnsupported"}, "Failed"},
		"a pool of all nodes":       {served, verdict{reason: "SharedPoolUnsupported"}, "Failed"},
		"a wrong setting":           {served, verdict{reason: "SettingInvalid"}, "Failed"},
		"an older resource":         {verdict: verdict{reason: "MultipleResources"}, want: "Failed"},
		"a former pool is used":     {served, verdict{reason: "PoolInUse"}, "Current"},
		"a former pool is mounted":  {served, verdict{reason: "PoolUnmounting"}, "Current"},
		"the last pools of deleted": {served, verdict{reason: "PoolUnmounting", available: no}, "InProgress"},
		"deleted, in use":           {served, verdict{reason: "VolumesInUse"}, "InProgress"},
		"nothing known":             {verdict: verdict{reason: "ReconcileFailed"}, want: "InProgress"},
	} {
		t.Run(name, func(t *testing.T) {
			status := *row.before.DeepCopy()
			r.conditions(&status, row.verdict, []string{"snapshots are not offered yet"})
			if got := kstatus(2, asOf(status, 2)); got != row.want {
				t.Errorf("%s, want %s: %+v", got, row.want, status.Conditions)
			}
			if got := kstatus(3, asOf(status, 2)); got != "InProgress" {
				t.Errorf("%s after a change of the resource that was not seen yet", got)
			}
			seen := asOf(status, 2)
			for i, kind := range []v1beta1.ConditionType{v1beta1.Available, v1beta1.Progressing, v1beta1.Degraded, v1beta1.ReadyCondition, v1beta1.Reconciling, v1beta1.Stalled} {
				if c := seen.Conditions[i]; c.Type != kind || c.ObservedGeneration != 2 || c.Reason == "" {
					t.Errorf("condition %d is %+v, want %s with the generation and a reason", i, c, kind)
				}
			}
			if len(status.Conditions) != 6 || status.Conditions[0].ObservedGeneration != 0 {
				t.Errorf("%+v", status.Conditions)
			}
			if row.want == "Current" && seen.Conditions[0].Status != yes {
				t.Error("Current although Available is False")
			}
		})
	}
}

// A change of the resource that changes no condition is written, once: a client waits for the
// generation.
func TestGenerationIsWritten(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp"}}
	writes := 0
	through := fake.NewClientBuilder().WithScheme(kinds(t)).WithObjects(cr).WithStatusSubresource(cr).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	r := &Reconciler{Client: through, Events: events.NewFakeRecorder(10), Now: time.Now}
	for pass, generation := range []int64{1, 1, 2, 2} {
		if err := through.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			t.Fatal(err)
		}
		cr.Generation = generation // the fake API server does not count
		status := *cr.Status.DeepCopy()
		r.conditions(&status, verdict{reason: "Complete", message: "Application Available"}, nil)
		if err := r.writeStatus(t.Context(), cr, status); err != nil {
			t.Fatal(err)
		}
		if want := int(generation); writes != want {
			t.Errorf("pass %d: %d writes, want %d", pass, writes, want)
		}
	}
	if err := through.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil || cr.Status.ObservedGeneration != 2 {
		t.Errorf("%+v, %v", cr.Status, err)
	}
}

// The page has two tables: the conditions of each reason, and how clients that wait read it. Every
// reason is in both, as the code has it.
func TestHealthIsInThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]corev1.ConditionStatus{"True": yes, "False": no, "as before": ""}
	named := regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	shown, read := map[string]meaning{}, map[string][]string{}
	var table string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 5 {
			table = ""
			continue
		}
		if cells[0] == "Available" || cells[0] == "Ready" {
			table = cells[0]
		}
		for _, m := range named.FindAllStringSubmatch(cells[3], -1) {
			switch table {
			case "Available":
				shown[m[1]] = meaning{available: statuses[cells[0]], progressing: statuses[cells[1]], degraded: statuses[cells[2]]}
			case "Ready":
				read[m[1]] = append(cells[:3:3], cells[4])
			}
		}
	}
	r := &Reconciler{Now: time.Now}
	var served v1beta1.HostPathProvisionerStatus
	r.conditions(&served, verdict{reason: "Complete", message: "Application Available"}, nil)
	for reason, m := range reasons {
		if want := shown[reason]; m.available != want.available || m.progressing != want.progressing || m.degraded != want.degraded {
			t.Errorf("%s: %+v, and in the page %+v", reason, m, want)
		}
		status := *served.DeepCopy()
		r.conditions(&status, verdict{reason: reason, message: "text"}, nil)
		got := []string{}
		for _, c := range status.Conditions[3:] {
			got = append(got, string(c.Status))
		}
		if got = append(got, kstatus(1, asOf(status, 1))); !slices.Equal(got, read[reason]) {
			t.Errorf("%s: Ready, Reconciling, Stalled and kstatus are %q, and in the page %q", reason, got, read[reason])
		}
	}
	if len(shown) != len(reasons) || len(read) != len(reasons) {
		t.Errorf("%d reasons, %d in the first table, %d in the second", len(reasons), len(shown), len(read))
	}
}

// The event of a reason is a warning if the installation is degraded.
func TestEventsOfReasons(t *testing.T) {
	recorded := events.NewFakeRecorder(1)
	r := &Reconciler{Events: recorded}
	normal := []string{"DeployStarted", "UpgradeStarted", "RolloutStarted", "Complete", "PoolInUse", "PoolUnmounting", "VolumesInUse", "AgentsEnding"}
	for reason := range reasons {
		want := "Warning " + reason + " text"
		if slices.Contains(normal, reason) {
			want = "Normal " + reason + " text"
		}
		if reason == "Complete" {
			want = "Normal ProvisionerHealthy Provisioner Healthy"
		}
		r.announce(&v1beta1.HostPathProvisioner{}, v1beta1.Condition{Reason: reason, Message: "text"})
		if got := <-recorded.Events; got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
}
