package plugin

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
	"kubevirt.io/hostpath-provisioner/controller/plugin/explain"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

const gib = 1 << 30

func TestPrintAnswer(t *testing.T) {
	answer := &explain.Answer{Namespace: "shop", Name: "data", Class: "hostpath-csi", Size: 12 * gib, State: "Pending", Since: "5m",
		Findings: []explain.Finding{
			{Level: explain.Cause, What: "none of the 2 nodes can hold the volume", Do: "request at most 10Gi"},
			{Level: explain.Unknown, What: "unknown: may not list events"},
		},
		Nodes: []explain.Node{
			{Name: "node-01", Ready: "yes", Agent: "ready", Pool: "local", Available: ptr.To[int64](10 * gib), Lacks: []explain.Lack{{What: "12Gi are requested"}}},
			{Name: "node-02", Ready: "no", Agent: "none", Pool: "local", Lacks: []explain.Lack{{What: "it is not ready"}, {What: "no agent runs there"}}},
		},
		Events: []explain.Event{{Age: "10s", Type: "Warning", Object: "claim", Reason: "ProvisioningFailed", Message: "a name\x1b[31m"}},
	}
	var out bytes.Buffer
	if err := printAnswer(&out, view.Style{}, answer); err != nil {
		t.Fatal(err)
	}
	is(t, out.String(), `claim shop/data, 12Gi, class hostpath-csi: Pending, created 5m ago

  ✗ none of the 2 nodes can hold the volume
    → request at most 10Gi
  ? unknown: may not list events

NODE      READY   AGENT   POOL    AVAILABLE   LACKS
node-01   yes     ready   local        10Gi   12Gi are requested
node-02   no      none    local     unknown   it is not ready; no agent runs there

AGE   TYPE      OF      REASON               MESSAGE
10s   Warning   claim   ProvisioningFailed   "a name\x1b[31m"
`)
	out.Reset()
	if err := printAnswer(&out, view.Style{Color: true, Width: 44}, answer); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "  \x1b[31m✗\x1b[0m none of the 2 nodes can hold the volume\n") || strings.Contains(out.String(), "name\x1b") {
		t.Errorf("in color: %q", out.String())
	}
}

// On a terminal a row of doctor is a paragraph; elsewhere it is a line.
func TestPrintDiagnosis(t *testing.T) {
	rows := []doctor.Row{
		{Check: "agents", Verdict: doctor.OK, Page: "docs/troubleshooting.md"},
		{Check: "quotas", Verdict: doctor.Warning, Object: "node node-01", Why: "pool local enforces no quotas", Fix: "turn quotas on", Page: "docs/quotas.md"},
		{Check: "pools", Verdict: doctor.Unknown, Object: "node node-02", Why: "no answer within 10s (--timeout)", Page: "docs/operations.md"},
		{Check: "space", Verdict: doctor.Unknown, Object: "node node-02", Why: "no answer within 10s (--timeout)", Page: "docs/operations.md"},
		{Check: "claims", Verdict: doctor.Critical, Object: "claim shop/data", Why: "its node \x1b[31m does not exist", Fix: "annotate it", Page: "docs/troubleshooting.md"},
	}
	for want, style := range map[string]view.Style{
		`critical claims: claim shop/data
    "its node \x1b[31m does not exist"
    → annotate it (docs/troubleshooting.md)
warning  quotas: node node-01
    pool local enforces no quotas
    → turn quotas on (docs/quotas.md)
unknown  pools, space: node node-02
    no answer within 10s (--timeout)

5 checks: 1 critical, 1 warning, 2 unknown
`: {Width: 60},
		`critical   claims         claim shop/data   "its node \x1b[31m does not exist"   annotate it      docs/troubleshooting.md
warning    quotas         node node-01      pool local enforces no quotas        turn quotas on   docs/quotas.md
ok         agents         -                 -                                    -                docs/troubleshooting.md
unknown    pools, space   node node-02      no answer within 10s (--timeout)     -                -

5 checks: 1 critical, 1 warning, 2 unknown
`: {Wide: true, NoHeaders: true},
	} {
		var out bytes.Buffer
		s := &session{IOStreams: genericiooptions.IOStreams{Out: &out}, style: style}
		if err := s.printDiagnosis(rows); err != nil {
			t.Fatal(err)
		}
		is(t, out.String(), want)
	}
}

func is(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
