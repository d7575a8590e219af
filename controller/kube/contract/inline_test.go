package contract

import (
	"strings"
	"testing"
)

func TestInlineVolumes(t *testing.T) {
	const gib = 1 << 30
	for _, row := range []struct {
		text, pool string
		bytes      int64
		want       string // a word of the error, "" for none
	}{
		{"any", "fast", 1 << 60, ""},
		{"none", "fast", 1, "not offered"},
		{"fast=1Gi", "fast", gib, ""},
		{"fast=1Gi", "fast", gib + 1, "1Gi at most"},
		{"fast=1Gi, slow=any", "slow", 1 << 60, ""},
		{"fast=1Gi", "slow", 1, `"fast"`},
		{"fast=1Gi", "", 1, `"fast"`},
		{" fast=1Gi ,slow=any ", "fast", 1, ""},
	} {
		l, err := ParseInlineVolumes(row.text)
		if err != nil {
			t.Fatal(row.text, err)
		}
		if err := l.Check(row.pool, row.bytes); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q, pool %q, %d bytes: %v", row.text, row.pool, row.bytes, err)
		}
		if l.Allows(row.pool) != (l.Check(row.pool, 1) == nil) {
			t.Errorf("%q: pool %q is allowed: %v", row.text, row.pool, l.Allows(row.pool))
		}
	}
	if (InlineVolumes{}).Check("fast", 1<<60) != nil {
		t.Error("the zero value refuses")
	}
	for _, text := range []string{"", ",", "fast,", "fast=", "fast=x", "fast=0", "fast=-1Gi", "fast", "fast=1Gi,fast=2Gi", "=1Gi", "any,fast=1Gi", "fast slow=1Gi", "Any", "no"} {
		if l, err := ParseInlineVolumes(text); err == nil {
			t.Errorf("%q: %+v", text, l)
		}
	}
}
