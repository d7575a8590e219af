package plugin

import (
	"bytes"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func TestPrintDiagnosis(t *testing.T) {
	rows := []doctor.Row{
		{Check: "agents", Verdict: doctor.OK, Page: "docs/troubleshooting.md"},
		{Check: "quotas", Verdict: doctor.Warning, Object: "node node-01", Why: "pool local enforces no quotas", Fix: "turn quotas on", Page: "docs/quotas.md"},
		{Check: "pools", Verdict: doctor.Unknown, Object: "node node-02", Why: "no answer within 10s (--timeout)", Page: "docs/operations.md"},
		{Check: "space", Verdict: doctor.Unknown, Object: "node node-02", Why: "no answer within 10s (--timeout)", Page: "docs/operations.md"},
		{Check: "claims", Verdict: doctor.Critical, Object: "claim shop/data", Why: "its node \x1b[31m does not exist", Fix: "annotate it", Page: "docs/troubleshooting.md"},
	}
	for want, style := range map[string]view.Style{
		`VERDICT    CHECK          OBJECT            WHY                                  FIX              PAGE
critical   claims         claim shop/data   "its node \x1b[31m does not exist"   annotate it      docs/troubleshooting.md
warning    quotas         node node-01      pool local enforces no quotas        turn quotas on   docs/quotas.md
unknown    pools, space   node node-02      no answer within 10s (--timeout)     -                -

5 checks: 1 critical, 1 warning, 2 unknown
`: {},
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
	var out bytes.Buffer
	s := &session{IOStreams: genericiooptions.IOStreams{Out: &out}}
	if err := s.printDiagnosis(rows[:1]); err != nil {
		t.Fatal(err)
	}
	is(t, out.String(), "1 check: 0 critical, 0 warnings, 0 unknown\n")
}
