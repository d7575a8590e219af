package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// checker answers as the agent of the container does.
type checker struct {
	all   []orphans.Orphan
	asked []orphans.Named
	as    string
	err   error
}

func (c *checker) List(context.Context) ([]orphans.Orphan, error) { return c.all, c.err }

func (c *checker) Restored(_ context.Context, n orphans.Wanted, _ orphans.Restorer) (orphans.Objects, error) {
	c.asked, c.as = append(c.asked, n.Named), n.As
	return orphans.Objects{
		PV:    &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: n.Name}},
		Claim: &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}},
		Notes: []string{"mind the gap\nkind: Secret"},
	}, c.err
}

func (c *checker) Remove(_ context.Context, n orphans.Named) error {
	c.asked = append(c.asked, n)
	return c.err
}

// orphanPools returns the directories of two pools, and the record of a volume of the first.
func orphanPools(t *testing.T, both bool) (a, b string, n orphans.Named) {
	t.Helper()
	dir := t.TempDir()
	for i, path := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")} {
		pool, err := volume.New(volume.Config{Path: path})
		if err == nil {
			err = pool.Open()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		if i == 1 && !both {
			return a, path, n
		}
		v, err := pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1 << 20, PV: "pvc-1", Owner: record.Owner{Namespace: "ns", Name: "data", UID: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			a, n = path, orphans.Named{Pool: pool.ID(), Name: v.Name, Created: v.Created, Trash: v.Trash}
		}
		b = path
	}
	return a, b, n
}

// The command names the volume to the agent by the record that it read, and prints what the agent
// answers.
func TestOrphansCommand(t *testing.T) {
	clean(t)
	a, b, want := orphanPools(t, false)
	t.Setenv("DATADIR", `[{"name":"a","path":"`+a+`"},{"name":"b","path":"`+b+`"}]`)
	c := &checker{all: []orphans.Orphan{{Pool: a, Name: "pvc-1", Bytes: 1 << 20, Claim: "ns/data", Why: "PV pvc-1 is gone", Kept: "its directory was adopted"}}}
	server := httptest.NewServer(agent.WithOrphans(c, nil, http.NotFoundHandler()))
	defer server.Close()
	address := "--http-address=" + strings.TrimPrefix(server.URL, "http://")
	for _, row := range []struct {
		args  []string
		words []string
		asked int
	}{
		{nil, []string{"pvc-1", "1Mi", "ns/data", "kept: its directory was adopted"}, 0},
		{[]string{"-o", "json"}, []string{`"why": "PV pvc-1 is gone"`}, 0},
		{[]string{"show", "pvc-1"}, []string{"# \"mind the gap\\nkind: Secret\"\n", "kind: PersistentVolume\nmetadata:\n  name: pvc-1\nspec: {}\n---\n", "kind: PersistentVolumeClaim\n"}, 1},
		{[]string{"remove", "pvc-1"}, []string{"removed pvc-1"}, 1},
		{[]string{"remove", "pvc-1", "--pool", a}, []string{"removed pvc-1"}, 1},
	} {
		c.asked = nil
		var out bytes.Buffer
		err := run(t.Context(), append(append([]string{"orphans"}, row.args...), address), &out)
		if err != nil || len(c.asked) != row.asked || row.asked == 1 && (c.asked[0].Trash == "" || c.asked[0].Pool != want.Pool || !c.asked[0].Created.Equal(want.Created) || c.asked[0].Trash != want.Trash) {
			t.Errorf("%q: %v, asked for %+v", row.args, err, c.asked)
		}
		for _, words := range row.words {
			if !strings.Contains(out.String(), words) {
				t.Errorf("%q: no %q in\n%s", row.args, words, out.String())
			}
		}
	}
	if err := run(t.Context(), []string{"orphans", "show", "pvc-1", "--as=b/other", address}, &bytes.Buffer{}); err != nil || c.as != "b/other" {
		t.Errorf("for another claim: %v, %q", err, c.as)
	}
	c.asked = nil
	for _, row := range [][]string{
		{"pvc-2", `no pool has a record of a volume "pvc-2"`}, {"pvc-1", "no pool has a record", "--pool", b}, {"pvc-1", "there is no directory", "--pool", b + "/none"},
	} {
		err := run(t.Context(), append([]string{"orphans", "remove", row[0], address}, row[2:]...), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), row[1]) || len(c.asked) > 0 {
			t.Errorf("%q: %v, asked for %+v", row, err, c.asked)
		}
	}
	c.err = errors.New("its claim exists")
	if err := run(t.Context(), []string{"orphans", "remove", "pvc-1", address}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "its claim exists") {
		t.Errorf("kept: %v", err)
	}
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	err := run(t.Context(), []string{"orphans", "--http-address=" + strings.TrimPrefix(none.URL, "http://")}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "--provision") {
		t.Errorf("an agent without the check: %v", err)
	}
}

// A removed orphan is kept as a deleted volume is, and the command says until when.
func TestRemovedOrphanIsKept(t *testing.T) {
	clean(t)
	a, _, n := orphanPools(t, false)
	t.Setenv("DATADIR", `[{"name":"a","path":"`+a+`"}]`)
	kept := recovery.Kept{PoolUUID: n.Pool, Name: n.Name, Created: n.Created, Until: time.Date(2026, 12, 1, 8, 0, 0, 0, time.Local)}
	earlier := kept
	earlier.Created = n.Created.Add(-time.Hour)
	for what, row := range map[string]struct {
		handler http.Handler
		want    string
	}{
		"kept":     {agent.WithTrash(&undeleter{kept: []recovery.Kept{earlier, kept}}, http.NotFoundHandler()), "keeps the data until 2026-12-01 08:00:00: hostpath-provisioner trash has the ID"},
		"not kept": {agent.WithTrash(&undeleter{kept: []recovery.Kept{earlier}}, http.NotFoundHandler()), "its space is free once"},
		"unknown":  {http.NotFoundHandler(), "whether its pool keeps the data is not known: "},
	} {
		server := httptest.NewServer(agent.WithOrphans(&checker{}, nil, row.handler))
		var out bytes.Buffer
		err := run(t.Context(), []string{"orphans", "remove", "pvc-1", "--http-address=" + strings.TrimPrefix(server.URL, "http://")}, &out)
		if server.Close(); err != nil || !strings.HasPrefix(out.String(), "removed pvc-1; ") || !strings.Contains(out.String(), row.want) {
			t.Errorf("%s: %v, %s; want %q", what, err, out.String(), row.want)
		}
	}
}

// A name that two pools have means neither, until the caller chooses; nor does one while a pool
// cannot be read.
func TestOrphanOfTwoPools(t *testing.T) {
	clean(t)
	a, b, want := orphanPools(t, true)
	c := &checker{}
	server := httptest.NewServer(agent.WithOrphans(c, nil, http.NotFoundHandler()))
	defer server.Close()
	address := "--http-address=" + strings.TrimPrefix(server.URL, "http://")
	t.Setenv("DATADIR", `[{"name":"a","path":"`+a+`"},{"name":"b","path":"`+b+`"}]`)
	err := run(t.Context(), []string{"orphans", "remove", "pvc-1", address}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "--pool") || len(c.asked) > 0 {
		t.Errorf("%v, asked for %+v", err, c.asked)
	}
	t.Setenv("DATADIR", `[{"name":"a","path":"`+a+`"},{"name":"b","path":"`+b+`/none"}]`)
	if err := run(t.Context(), []string{"orphans", "remove", "pvc-1", address}, &bytes.Buffer{}); err == nil || len(c.asked) > 0 {
		t.Errorf("%v, asked for %+v", err, c.asked)
	}
	if err := run(t.Context(), []string{"orphans", "remove", "pvc-1", address, "--pool=" + a}, &bytes.Buffer{}); err != nil || len(c.asked) != 1 || c.asked[0].Pool != want.Pool {
		t.Errorf("%v, asked for %+v", err, c.asked)
	}
}

func TestOrphansUsage(t *testing.T) {
	clean(t)
	for _, args := range [][]string{{"delete", "pvc-1"}, {"remove"}, {"show", "a", "b"}, {"-o", "xml"}, {"--nope"}} {
		if err := run(t.Context(), append([]string{"orphans"}, args...), &bytes.Buffer{}); err == nil || agent.ExitCode(err) != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
	var help bytes.Buffer
	if err := run(t.Context(), []string{"orphans", "--help"}, &help); err != nil || !strings.Contains(help.String(), "orphans remove NAME") {
		t.Errorf("--help: %v: %s", err, help.String())
	}
}
