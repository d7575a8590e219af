package cluster

import (
	"strings"
	"testing"
)

func TestProvisionerModule(t *testing.T) {
	text, err := provisionerModule([]byte(`{"Go":"1.26.0","Replace":[
		{"Old":{"Path":"k8s.io/api"},"New":{"Path":"k8s.io/api","Version":"v0.36.1"}}]}`))
	for _, line := range []string{
		"go 1.26.0", "require github.com/kubernetes-csi/external-provisioner/v6 v6.3.0", "replace k8s.io/api => k8s.io/api v0.36.1",
		"replace github.com/kubernetes-csi/external-snapshotter/client/v8 => github.com/kubernetes-csi/external-snapshotter/client/v8 v8.6.0",
	} {
		if !strings.Contains(text, line+"\n") || err != nil {
			t.Errorf("%v; no line %q in\n%s", err, line, text)
		}
	}
	_, err = provisionerModule([]byte(`{"Go":"1.26.0","Replace":[{"Old":{"Path":"k8s.io/api"},"New":{"Path":"./staging/api"}}]}`))
	if err == nil || !strings.Contains(err.Error(), "./staging/api") {
		t.Errorf("a replacement by a directory: %v", err)
	}
}
