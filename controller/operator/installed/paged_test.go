package installed

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
)

// Pods of one tenant, each with large annotations, are read in pages of a few MiB, not all at once.
func TestListsAreBoundedInBytes(t *testing.T) {
	const pods, each = 100, 200 << 10
	largest := 0
	api := apitest.Client(t, func(r *http.Request) (int, any) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil {
			t.Errorf("a list without a limit: %s", r.URL)
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		for i := from; i < min(pods, from+limit); i++ {
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprintf("p%03d", i),
				Annotations: map[string]string{"large": strings.Repeat("x", each)}}})
		}
		if from+limit < pods {
			list.Continue = strconv.Itoa(from + limit)
		}
		return http.StatusOK, list
	})
	reader := Paged(fake.NewClientBuilder().Build(), api)
	seen := map[string]bool{}
	var page corev1.PodList
	err := pages(t.Context(), reader, "pods", &page, func() {
		largest = max(largest, len(page.Items))
		for _, pod := range page.Items {
			seen[pod.Name] = true
		}
	})
	if err != nil || len(seen) != pods || largest*each > 4<<20 {
		t.Errorf("%d pods, %d in one page, %v", len(seen), largest, err)
	}
	if err := reader.List(t.Context(), &page, client.InNamespace("ns")); err != nil || len(page.Items) != pods {
		t.Errorf("without a limit: %d pods, %v", len(page.Items), err)
	}
	var nodes corev1.NodeList
	if err := reader.List(t.Context(), &nodes); err != nil {
		t.Error(err)
	}
}
