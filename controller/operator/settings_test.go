package operator

import (
	"strings"
	"testing"
)

func TestParseSettings(t *testing.T) {
	env := map[string]string{"CSI_PROVISIONER_IMAGE": "b", "PROVISIONER_IMAGE": "c", "VERBOSITY": "3", "LIVENESS_PROBE_IMAGE": "x"}
	s, ignored, err := ParseSettings("v1", func(name string) string { return env[name] })
	if err != nil || s.Image != "b" || s.Verbosity != 3 || s.PartOf != "hostpath-provisioner" || len(ignored) != 1 || s.Namespace != "hostpath-provisioner" {
		t.Errorf("%+v, %v, %v", s, ignored, err)
	}
	if s, _, err := ParseSettings("v1", func(name string) string { return map[string]string{"POD_NAME": "p"}[name] }); err != nil || s.Image != "" || s.Pod != "p" {
		t.Errorf("the image of the pod: %+v, %v", s, err)
	}
	for _, bad := range []map[string]string{{}, {"OPERATOR_IMAGE": "a", "VERBOSITY": "loud"}, {"OPERATOR_IMAGE": "a", "VERBOSITY": "-1"}} {
		if _, _, err := ParseSettings("v1", func(name string) string { return bad[name] }); err == nil || !strings.Contains(err.Error(), "_IMAGE") && !strings.Contains(err.Error(), "VERBOSITY") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
