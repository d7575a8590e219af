package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Whatever users write, a claim takes no more than MaxClaim, and lists what it lacks.
func TestClaimIsBounded(t *testing.T) {
	long := map[string]string{}
	for i := range 100 {
		long[fmt.Sprint("key", i)] = strings.Repeat("<", 60) // six bytes each in JSON
	}
	whole := Claim{Provisioner: "p", Class: "fast", AccessModes: []string{"ReadWriteOnce"}, MountOptions: []string{"noatime"}, FSType: "ext4",
		Request: 1, Labels: map[string]string{"app": "db"}, Annotations: map[string]string{"a": "b"}}
	endless := strings.Repeat("x", 2*MaxClaim)
	for name, row := range map[string]struct {
		edit func(*Claim)
		want []string
	}{
		"short":                {func(*Claim) {}, nil},
		"long annotations":     {func(c *Claim) { c.Annotations = long }, []string{"annotations"}},
		"long labels":          {func(c *Claim) { c.Labels = long }, []string{"annotations", "labels"}},
		"endless mount option": {func(c *Claim) { c.MountOptions = []string{endless} }, []string{"annotations", "labels", "mountOptions"}},
		"endless everything": {func(c *Claim) {
			*c = Claim{endless, endless, []string{endless}, []string{endless}, endless, 1, time.Time{}, "uid", map[string]string{endless: ""}, map[string]string{endless: ""}, nil}
		}, []string{"annotations", "labels", "mountOptions", "fsType", "accessModes", "class", "provisioner"}},
	} {
		c := whole
		row.edit(&c)
		before := c
		got := c.Bounded()
		if got.size() > MaxClaim || !slices.Equal(got.Omitted, row.want) || got.Request != 1 {
			t.Errorf("%s: %d bytes without %q, want %q", name, got.size(), got.Omitted, row.want)
		}
		if !c.Equal(&before) {
			t.Errorf("%s: the claim itself was changed", name)
		}
	}
	if _, err := json.Marshal(whole); err != nil || whole.Bounded().Labels["app"] != "db" {
		t.Error(err, whole)
	}
}

func TestClaimsAreEqualByContent(t *testing.T) {
	c := func(edit func(*Claim)) *Claim {
		c := &Claim{Class: "fast", Labels: map[string]string{"app": "db"}}
		edit(c)
		return c
	}
	same := c(func(*Claim) {})
	var none *Claim
	if !none.Equal(nil) || none.Equal(same) || same.Equal(nil) || !same.Equal(c(func(*Claim) {})) {
		t.Error("nil, or the same content")
	}
	for i, other := range []*Claim{
		c(func(c *Claim) { c.Provisioner = "x" }), c(func(c *Claim) { c.Class = "x" }), c(func(c *Claim) { c.FSType = "x" }),
		c(func(c *Claim) { c.Request = 1 }), c(func(c *Claim) { c.Created = time.Unix(1, 0) }), c(func(c *Claim) { c.NamespaceUID = "x" }),
		c(func(c *Claim) { c.AccessModes = []string{"x"} }), c(func(c *Claim) { c.MountOptions = []string{"x"} }),
		c(func(c *Claim) { c.Labels["app"] = "x" }), c(func(c *Claim) { c.Annotations = map[string]string{"x": ""} }),
		c(func(c *Claim) { c.Omitted = []string{"x"} }),
	} {
		if same.Equal(other) {
			t.Errorf("%d: %+v", i, other)
		}
	}
}
