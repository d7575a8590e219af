package suite

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// An API server keeps the field of manifests/examples/driver-first from Kubernetes 1.37 on. An
// older one refuses it, because kubectl validates strictly, so manifests/csi does not set it.
func TestDriverFirst(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	version, err := s.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(strings.TrimSuffix(version.Minor, "+"))
	if err != nil {
		t.Fatal(err)
	}
	apply := "kubectl apply --dry-run=server -o yaml -k " + filepath.Join("..", "..", "manifests", "examples", "driver-first")
	switch {
	case minor >= 37:
		s.Shell(apply + " | grep 'preventPodSchedulingIfMissing: true'")
	case minor < 36:
		s.Shell(apply + " 2>&1 | grep 'unknown field'")
	}
}
