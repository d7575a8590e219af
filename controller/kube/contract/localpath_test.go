package contract

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLocalVolume(t *testing.T) {
	const none = "none"
	for _, row := range []struct {
		claim, class string
		want         bool
		words        string
	}{
		{none, none, false, ""},
		{none, "local", true, ""},
		{none, "", false, ""},
		{"hostPath", "local", false, ""},
		{"Local", "hostPath", true, ""},
		{"local", "nonsense", true, ""},
		{"", "local", false, `annotation volumeType is ""`},
		{"nfs", none, false, `annotation volumeType is "nfs"; it must be local or hostPath`},
		{none, "nfs", false, `annotation defaultVolumeType of class "c" is "nfs"`},
	} {
		sc := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{}}}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		if row.claim != none {
			claim.Annotations["volumeType"] = row.claim
		}
		if row.class != none {
			sc.Annotations["defaultVolumeType"] = row.class
		}
		got, err := localVolume(claim, sc)
		if got != row.want || (err == nil) != (row.words == "") || err != nil && !strings.Contains(err.Error(), row.words) {
			t.Errorf("claim %q, class %q: %v, %v", row.claim, row.class, got, err)
		}
	}
}

func TestPatternNaming(t *testing.T) {
	const pv = "pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	for pattern, want := range map[string]string{ // "": refused
		"{{ .PVName }}_{{ .PVC.Namespace }}_{{ .PVC.Name }}": pv + "_shop_data",
		"{{.PVName}}":                   pv,
		"{{ .PVC.Name }}-{{ .PVName }}": "data-" + pv,
		"{{ .PVC.Namespace }}-{{ .PVC.Name }}-{{ .PVName }}": "shop-data-" + pv,
		"{{ .PVC.Namespace }}/{{ .PVC.Name }}":               "",
		"{{ .PVC.Namespace }}/{{ .PVC.Name }}/{{ .PVName }}": "",
		"{{ .PVC.Annotations.path }}":                        "",
		"../{{ .PVName }}":                                   "",
		"{{ .PVC.Namespace }}-{{ .PVC.Name }}":               "",
		"":                                                   "",
	} {
		name, err := patternNaming(&storagev1.StorageClass{Parameters: map[string]string{"pathPattern": pattern}})
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "{{.PVName}}") {
				t.Errorf("%q: %v, want a refusal that names the patterns", pattern, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
		} else if got := name(pv, "shop", "data"); got != want || filepath.Base(got) != got {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
	if name, err := patternNaming(&storagev1.StorageClass{}); err != nil || name(pv, "shop", "data") != pv+"_shop_data" {
		t.Errorf("without the parameter: %v", err)
	}
}
