package identity

import (
	"strings"
	"testing"
	"time"
)

func TestWhichObject(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// its is a PV that was seen with its volume; spoil changes one thing.
	its := Object{Recorded: "a", RecordedCluster: "here", Made: made, UID: "a", Created: made.Add(time.Second), Cluster: "here"}
	older := its // by an older version, which records no UID
	older.Recorded = ""
	first := older // no agent saw its PV
	first.NeverBound = true
	again := func(o *Object) { o.UID, o.Created = "b", made.Add(time.Hour) } // applied again
	for what, row := range map[string]struct {
		from  Object
		spoil func(*Object)
		want  Answer
		why   string // part of it
	}{
		"its own":                    {its, nil, Ours, ""},
		"applied again":              {its, again, Foreign, "UID was a; the UID of this one is b"},
		"applied again at once":      {its, func(o *Object) { o.UID = "b" }, Foreign, "UID was a"},
		"applied again, confirmed":   {its, func(o *Object) { again(o); o.Confirmed = true }, Ours, ""},
		"replaced, and not recorded": {its, func(o *Object) { again(o); o.Successor = true }, Foreign, "UID was a"},
		"another cluster":            {its, func(o *Object) { again(o); o.Cluster = "there" }, Foreign, "another cluster, here"},
		"another cluster, its UID":   {its, func(o *Object) { o.Cluster = "there" }, Foreign, "another cluster"},
		"another, confirmed":         {its, func(o *Object) { again(o); o.Cluster, o.Confirmed = "there", true }, Ours, ""},
		"cluster unknown, its UID":   {its, func(o *Object) { o.Cluster = "" }, Ours, ""},
		"recorded without a cluster": {its, func(o *Object) { o.RecordedCluster = "" }, Ours, ""},
		"both without a cluster":     {its, func(o *Object) { o.RecordedCluster, o.Cluster = "", "" }, Ours, ""},
		"unknown, applied again":     {its, func(o *Object) { again(o); o.Cluster = "" }, Foreign, "UID was a"},

		"older":                        {older, nil, Ours, ""},
		"older, applied again":         {older, again, Unclear, "created 2026-01-02T04:04:05Z, was not created with the volume, 2026-01-02T03:04:05Z"},
		"older, ten minutes":           {older, func(o *Object) { o.Created = made.Add(10 * time.Minute) }, Ours, ""},
		"older, eleven minutes":        {older, func(o *Object) { o.Created = made.Add(11 * time.Minute) }, Unclear, "was not created with"},
		"older, clocks differ":         {older, func(o *Object) { o.Created = made.Add(-time.Minute) }, Ours, ""},
		"older, before the volume":     {older, func(o *Object) { o.Created = made.Add(-time.Hour) }, Unclear, "was not created with"},
		"older, of an unknown time":    {older, func(o *Object) { o.Made = time.Time{} }, Unclear, "not bound to a claim since"},
		"older, replaced":              {older, func(o *Object) { again(o); o.Successor = true }, Ours, ""},
		"older, replaced elsewhere":    {older, func(o *Object) { again(o); o.Successor, o.Cluster = true, "there" }, Foreign, "another cluster"},
		"older, another cluster":       {older, func(o *Object) { o.Cluster = "there" }, Foreign, "another cluster"},
		"older, confirmed":             {older, func(o *Object) { again(o); o.Confirmed = true }, Ours, ""},
		"older, no cluster recorded":   {older, func(o *Object) { o.RecordedCluster = "" }, Unclear, "unknown whether"},
		"older, this one's unknown":    {older, func(o *Object) { o.Cluster = "" }, Unclear, "unknown whether"},
		"older, no cluster at all":     {older, func(o *Object) { o.RecordedCluster, o.Cluster = "", "" }, Unclear, "unknown whether"},
		"never bound":                  {first, nil, Ours, ""},
		"never bound, late":            {first, again, Ours, ""},
		"never bound, another cluster": {first, func(o *Object) { o.Cluster = "there" }, Foreign, "another cluster"},
		"never bound, no cluster":      {first, func(o *Object) { o.RecordedCluster, o.Cluster = "", "" }, Ours, ""},
		"never bound, none, late":      {first, func(o *Object) { again(o); o.RecordedCluster, o.Cluster = "", "" }, Unclear, "unknown whether"},
		"never bound, not recorded":    {first, func(o *Object) { o.RecordedCluster = "" }, Unclear, "unknown whether"},
	} {
		o := row.from
		if row.spoil != nil {
			row.spoil(&o)
		}
		got := WhichObject(o)
		if got.Answer != row.want || !strings.Contains(got.Why, row.why) || (got.Why == "") != (row.want == Ours) {
			t.Errorf("%s: %v %q, want %v with %q", what, got.Answer, got.Why, row.want, row.why)
		}
	}
}
