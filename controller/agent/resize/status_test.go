package resize

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	early = metav1.NewTime(time.Unix(1, 0))
	late  = metav1.NewTime(time.Unix(2, 0))
	// foreign is a condition of another controller.
	foreign = corev1.PersistentVolumeClaimCondition{Type: "Weather", Status: corev1.ConditionTrue, LastTransitionTime: early}
)

func TestRefusedAndGrown(t *testing.T) {
	claim, _ := pair("20Mi", "10Mi", "10Mi")
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{foreign,
		{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue},
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
	if !mentionsResize(claim) {
		t.Error("says nothing of growing")
	}
	before := claim.DeepCopy()

	no := refused(claim.Status, "no space", true, early)
	want := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimControllerResizeError,
		Status: corev1.ConditionTrue, Message: "no space", LastTransitionTime: early}
	if !reflect.DeepEqual(no.Conditions, []corev1.PersistentVolumeClaimCondition{foreign, want}) ||
		no.AllocatedResourceStatuses["storage"] != corev1.PersistentVolumeClaimControllerResizeInfeasible || no.Capacity.Storage().String() != "10Mi" {
		t.Errorf("refused: %+v", no)
	}
	if again := refused(no, "no space", true, late); !apiequality.Semantic.DeepEqual(again, no) {
		t.Errorf("refused again: %+v, want what was said already, %+v", again, no)
	}
	away := refused(no, "not ready", false, late)
	if len(away.AllocatedResourceStatuses) != 0 || len(away.Conditions) != 2 || away.Conditions[1].Message != "not ready" ||
		!away.Conditions[1].LastTransitionTime.Equal(&early) {
		t.Errorf("refused for another reason: %+v", away)
	}

	yes := grown(no, resource.MustParse("20Mi"), resource.MustParse("20Mi"))
	if yes.Capacity.Storage().String() != "20Mi" || yes.AllocatedResources.Storage().String() != "20Mi" ||
		len(yes.AllocatedResourceStatuses) != 0 || !reflect.DeepEqual(yes.Conditions, []corev1.PersistentVolumeClaimCondition{foreign}) {
		t.Errorf("grown: %+v", yes)
	}
	less := grown(yes, resource.MustParse("15Mi"), resource.MustParse("15Mi"))
	if less.Capacity.Storage().String() != "20Mi" || less.AllocatedResources.Storage().String() != "15Mi" {
		t.Errorf("a claim that shows the whole disk: %+v", less)
	}
	if !reflect.DeepEqual(claim, before) {
		t.Errorf("the claim was changed: %+v", claim)
	}
	if mentionsResize(&corev1.PersistentVolumeClaim{Status: yes}) || !mentionsResize(&corev1.PersistentVolumeClaim{Status: no}) {
		t.Error("what a claim says of growing is mistaken")
	}
}

// A patch is for one claim in one version, and takes away what is over.
func TestStatusPatch(t *testing.T) {
	claim, _ := pair("20Mi", "10Mi", "10Mi")
	claim.Status = refused(claim.Status, "no space", true, early)
	data, err := statusPatch(claim, grown(claim.Status, resource.MustParse("20Mi"), resource.MustParse("20Mi")))
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"metadata":{"uid":"1","resourceVersion":"7"},"status":{
		"capacity":{"storage":"20Mi"},"allocatedResources":{"storage":"20Mi"},"allocatedResourceStatuses":null,"conditions":null}}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("patch %s", data)
	}
}
