package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Parameters are heeded or refused, in words that name the class; no pool is
// without a name.
func FuzzParameters(f *testing.F) {
	for _, text := range []string{`{}`, `{"storagePool":"fast","quota":"required","inodes":"1000"}`, `{"quota":"none","inodes":"1"}`,
		`{"inodes":"-1"}`, `{"inodes":"18446744073709551615"}`, `{"csi.storage.k8s.io/fstype":"ext4"}`, `{"quota":""}`, `{"limit":"none"}`, `{"quta":"required"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var parameters map[string]string
		if json.Unmarshal([]byte(text), &parameters) != nil {
			return
		}
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "some-class"}, Parameters: parameters}
		if contract.PoolName(parameters) == "" {
			t.Error("a pool without a name")
		}
		p, err := contract.ParametersOf(c)
		_, wrong := contract.HostPathClass.Parse(parameters)
		switch {
		case err != nil && !strings.Contains(err.Error(), "some-class"):
			t.Errorf("%v: which class?", err)
		case err == nil && wrong != nil:
			t.Errorf("nothing is wrong with the parameters, and %v", wrong)
		case err == nil && p.Spec.Quota == record.QuotaNone && p.Spec.Inodes > 0:
			t.Errorf("a limit and none: %+v", p.Spec)
		}
		for key := range parameters {
			switch key {
			case contract.StoragePool, contract.FSType, contract.QuotaParameter, contract.InodesParameter:
			default:
				if err == nil {
					t.Errorf("the key %q has no effect and no error", key)
				}
			}
		}
	})
}

// Directories are named such that the volume library takes the name and people
// find the claim in it.
func FuzzDirectory(f *testing.F) {
	f.Add("pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", "data", true)
	f.Add("pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", strings.Repeat("a.", 126), true)
	f.Add("pvc-1", "", false)
	f.Fuzz(func(t *testing.T, pv, claim string, prefix bool) {
		if len(pv) > 253 || len(claim) > 253 {
			return // the API server has no such object
		}
		name := contract.Directory(pv, claim, prefix)
		if len(name) > 255 || !strings.HasSuffix(name, pv) {
			t.Errorf("directory %q of PV %q", name, pv)
		}
	})
}
