package live

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// Outside of a pod and without a kubeconfig the error says what to set, and nothing is logged: a log that a
// page sends its readers to has the one line that matters.
func TestAPIServerIsNotFound(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var log bytes.Buffer
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	klog.SetOutput(&log)
	_, err := APIServer("")
	klog.Flush()
	_ = flags.Set("logtostderr", "true")
	if err == nil || !strings.Contains(err.Error(), "set --kubeconfig") || log.Len() > 0 {
		t.Errorf("%v; logged %q", err, log.String())
	}
	if _, err := APIServer("/none"); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("a kubeconfig that is not there: %v", err)
	}
}
