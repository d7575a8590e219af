package agentstatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var now = time.Now()

// observed has a DaemonSet for two nodes whose current template all pods have. Pods has a letter
// for each: r for ready, u for not ready that was created long ago, e for one that ends, n for one
// without a node, o for one of another DaemonSet. They changed a minute ago.
func observed(pods string) Observed {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agents", UID: "1", Generation: 1}}
	ds.Status = appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2}
	o := Observed{DaemonSet: ds, Now: now}
	for i, state := range pods {
		changed := metav1.NewTime(now.Add(-time.Minute))
		letter := string(rune('a' + i))
		owner := metav1.OwnerReference{Kind: "DaemonSet", UID: ds.UID, Controller: ptr.To(true)}
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "agent-" + letter, CreationTimestamp: changed, OwnerReferences: []metav1.OwnerReference{owner}},
			Spec:       corev1.PodSpec{NodeName: "node-" + letter},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: changed}}},
		}
		switch state {
		case 'u':
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		case 'e':
			pod.DeletionTimestamp = &changed
		case 'n':
			pod.Status.Conditions, pod.Spec.NodeName = nil, ""
		case 'o':
			pod.OwnerReferences[0].UID = "2"
		}
		o.Pods = append(o.Pods, pod)
	}
	return o
}

// words are what a state says, in the order of its fields.
func words(s State) string {
	text := fmt.Sprintf("%d/%d", s.Ready, s.Desired)
	for _, word := range []struct {
		name string
		is   bool
	}{{"rolling", s.Rolling}, {"counting", s.Counting}, {"left", s.Left > 0}, {"failed", s.Failed}, {"missing", s.Missing > 0},
		{"settled", s.Settled}, {"complete", s.Complete()}} {
		if word.is {
			text += " " + word.name
		}
	}
	return text
}

// A rollout is complete only if the DaemonSet and its pods agree on that, and an agent is lost only
// if one is not ready.
func TestJudge(t *testing.T) {
	updated := func(n int32) func(*Observed) {
		return func(o *Observed) { o.DaemonSet.Status.UpdatedNumberScheduled = n }
	}
	ready := func(n int32) func(*Observed) {
		return func(o *Observed) { o.DaemonSet.Status.NumberReady = n }
	}
	rolling := func(o *Observed) { o.Rolling = true }
	onDelete := func(o *Observed) { o.DaemonSet.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }
	for _, row := range []struct {
		name, pods string
		change     []func(*Observed)
		want       string
	}{
		{"not installed", "", []func(*Observed){func(o *Observed) { o.DaemonSet = nil }}, "0/0 rolling"},
		{"all are ready", "rr", nil, "2/2 settled complete"},
		{"another's pod", "rro", nil, "2/2 settled complete"},
		{"the end of a rollout", "rr", []func(*Observed){rolling}, "2/2 settled complete"},
		{"the cache lacks what was written", "rr", []func(*Observed){func(o *Observed) { o.Written = 2 }}, "2/2 rolling"},
		{"the counts are those of older pods", "r", []func(*Observed){func(o *Observed) { o.Written = 2 }}, "1/2 rolling"},
		{"Kubernetes has not seen the change", "rr", []func(*Observed){func(o *Observed) { o.DaemonSet.Generation = 2 }}, "2/2 rolling"},
		{"it is being deleted", "rr", []func(*Observed){func(o *Observed) { o.DaemonSet.DeletionTimestamp = &metav1.Time{Time: now} }}, "2/2 rolling"},
		{"one has the older template", "rr", []func(*Observed){updated(1)}, "2/2 rolling settled"},
		{"one has the older template, and keeps it", "rr", []func(*Observed){updated(1), onDelete}, "2/2 settled complete"},
		{"one keeps the older template, and a node comes back", "r", []func(*Observed){updated(0), onDelete, ready(1),
			func(o *Observed) { o.DaemonSet.Status.CurrentNumberScheduled = 1 }}, "1/2 rolling left missing"},
		{"one has the older template, and one is not counted yet", "rr", []func(*Observed){updated(1), ready(1)}, "1/2 rolling settled"},
		{"no node", "", []func(*Observed){func(o *Observed) { o.DaemonSet.Status = appsv1.DaemonSetStatus{ObservedGeneration: 1} }}, "0/0 settled"},
		{"a pod ends", "re", nil, "1/2 rolling left"},
		{"a pod is gone, and counted", "r", nil, "1/2 rolling left missing"},
		{"the new one is not counted yet", "rr", []func(*Observed){ready(1)}, "1/2 counting settled"},
		{"one is not ready, and still counted", "ru", nil, "1/2 left settled"},
		{"the new one starts", "ru", []func(*Observed){ready(1), rolling}, "1/2 rolling left settled"},
		{"one restarts", "ru", []func(*Observed){ready(1)}, "1/2 left settled"},
		{"a pod waits for its node", "rn", []func(*Observed){ready(1)}, "1/2 rolling left"},
		{"one has failed", "ru", []func(*Observed){ready(1), rolling, func(o *Observed) { o.Now = now.Add(Startup) }}, "1/2 failed settled"},
		{"no pod is created", "", []func(*Observed){func(o *Observed) {
			o.DaemonSet.Status = appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2}
		}}, "0/2 rolling left missing"},
	} {
		o := observed(row.pods)
		for _, change := range row.change {
			change(&o)
		}
		if s := Of(o); words(s) != row.want {
			t.Errorf("%s: %s, want %s\n%+v", row.name, words(s), row.want, s)
		}
	}
}

// An agent has two minutes: from its creation, from when it ceased to be ready or began to end, or
// from when its pod was missed.
func TestAgentThatDoesNotStart(t *testing.T) {
	for _, pods := range []string{"u", "e", "n", "ru", "re"} {
		o := observed(pods)
		s := Of(o)
		if s.Left != Startup-time.Minute || s.Failed || len(s.Unready) != 1 || len(s.Running) > strings.Count(pods, "r")+strings.Count(pods, "u") {
			t.Errorf("%s: %+v", pods, s)
		}
		o.Now = now.Add(Startup)
		s = Of(o)
		if want := strings.HasSuffix(pods, "e"); (len(s.Endless) == 1) != want || want && !strings.HasPrefix(s.Endless[0], "pod agent-") {
			t.Errorf("%s: do not end: %q", pods, s.Endless)
		}
		if !s.Failed {
			t.Errorf("%s: not failed after %v", pods, Startup)
		}
	}
	first := observed("uu")
	first.Pods[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-30 * time.Second))
	if s := Of(first); s.Left != Startup-time.Minute {
		t.Errorf("the first that fails: %+v", s)
	}
	missed := observed("r")
	if s := Of(missed); s.Left != Startup || !s.MissingSince.Equal(now) {
		t.Errorf("missed now: %+v", s)
	}
	missed.MissingSince = now.Add(-Startup)
	if s := Of(missed); !s.Failed || s.Left != 0 {
		t.Errorf("missed for long: %+v", s)
	}
	came := observed("rr")
	came.MissingSince = now.Add(-Startup)
	if s := Of(came); s.Failed || !s.MissingSince.IsZero() {
		t.Errorf("no longer missed: %+v", s)
	}
}

// The nodes are in an order, each once, so that what is shown does not change with the order of the
// pods.
func TestOrderOfNodes(t *testing.T) {
	o := observed("uuuu")
	slices.Reverse(o.Pods)
	o.Pods[0].Spec.NodeName = "node-a" // also an older pod there
	s := Of(o)
	running := ""
	for _, pod := range s.Running {
		running += pod.Spec.NodeName + " "
	}
	if strings.Join(s.Unready, " ") != "node-a node-b node-c" || running != "node-a node-a node-b node-c " {
		t.Errorf("not ready: %v, running: %s", s.Unready, running)
	}
}

// The agent of node a runs on, although the node got a taint that it does not tolerate: it is not
// one of the two that there should be, and does not hide what is wrong with them.
func TestMisscheduledAgent(t *testing.T) {
	for name, row := range map[string]struct {
		pods  string
		ready int32
		want  string
	}{
		"all ready":            {"rrr", 2, "2/2 complete"},
		"another is not ready": {"rur", 1, "1/2 left"},
		"another is missing":   {"rr", 1, "1/2 left missing"},
		"not counted yet":      {"rrr", 1, "1/2 counting"},
	} {
		o := observed(row.pods)
		o.DaemonSet.Status.NumberMisscheduled, o.DaemonSet.Status.NumberReady = 1, row.ready
		got := strings.ReplaceAll(words(Of(o)), " settled", "")
		if got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
