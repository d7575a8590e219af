package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	agentrecovery "kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// undeleter answers as the agent of the container does.
type undeleter struct {
	kept  []recovery.Kept
	asked []orphans.Named
	from  string // the cluster that the last request named
	err   error  // about the volume that fails
	fails string
}

func (u *undeleter) List(context.Context) ([]recovery.Kept, error) { return u.kept, nil }

func (u *undeleter) Plan(_ context.Context, r agentrecovery.Request) (recovery.Volume, error) {
	u.asked, u.from = append(u.asked, r.Named), r.FromCluster
	return recovery.Volume{Name: r.Name, Kept: r.Trash}, u.err
}

func (u *undeleter) Undelete(_ context.Context, r agentrecovery.Request) (agentrecovery.Undeleted, error) {
	u.asked, u.from = append(u.asked, r.Named), r.FromCluster
	return agentrecovery.Undeleted{Name: r.Name, Pool: "/a", Policy: "Delete"}, u.err
}

func (u *undeleter) Remove(_ context.Context, n orphans.Named) error {
	u.asked = append(u.asked, n)
	if n.Trash == u.fails {
		return errors.New("a record may be this volume's")
	}
	return nil
}

// keptPool returns a pool that keeps the deleted volumes of claims, namespace/name, and their records.
func keptPool(t *testing.T, claims ...string) (dir string, all []orphans.Named) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "a")
	pool, err := volume.New(volume.Config{Path: dir, TrashRetention: time.Hour, Figures: classtest.Roomy})
	if err == nil {
		err = pool.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	for _, claim := range claims {
		namespace, name, _ := strings.Cut(claim, "/")
		owner := record.Owner{Namespace: namespace, Name: name, UID: claim}
		v, err := pool.Create(volume.Spec{Name: "pvc-" + name, Bytes: 1 << 20, PV: "pvc-" + name, Owner: owner})
		if err == nil {
			_, err = pool.Bind(v.Name, volume.Binding{PV: v.PV, Owner: owner, UID: "pv", ReclaimPolicy: "Delete", Bound: true})
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(v.Path, "file"), []byte("data"), 0o600)
		}
		if err == nil {
			err = pool.Delete(v.Name)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, orphans.Named{Pool: pool.ID(), Name: v.Name, Created: v.Created, Trash: v.Trash})
	}
	return dir, all
}

// The command names deleted volumes to the agent by the records that it read, and prints what the agent
// answers.
func TestTrashCommand(t *testing.T) {
	clean(t)
	dir, named := keptPool(t, "shop/orders", "shop/data", "other/logs")
	t.Setenv("DATADIR", `[{"name":"a","path":"`+dir+`"}]`)
	u := &undeleter{fails: named[1].Trash, kept: []recovery.Kept{{PoolUUID: named[0].Pool, Name: "pvc-gone"}, {Pool: dir, PoolUUID: named[0].Pool, ID: named[0].Trash, Name: "pvc-orders", Created: named[0].Created, Namespace: "shop", Claim: "orders",
		Bytes: 1 << 20, Deleted: time.Unix(0, 0).UTC(), Until: time.Unix(3600, 0).UTC(), NotOffered: "mind the gap\nkept"}}}
	server := httptest.NewServer(agent.WithTrash(u, http.NotFoundHandler()))
	defer server.Close()
	address := "--http-address=" + strings.TrimPrefix(server.URL, "http://")
	id := named[0].Trash
	for _, row := range []struct {
		args  []string
		words []string
		asked []orphans.Named
		fails string
	}{
		{nil, []string{id, "pvc-orders", "1Mi", "shop/orders", "1970-01-01 01:00:00", `not offered: mind the gap\nkept`}, nil, ""},
		{[]string{"-o", "json"}, []string{`"kept": [`, `"id": "` + id + `"`, `"claim": "orders"`, `"going": []`}, nil, ""},
		{[]string{"plan", id, "--from-cluster=x"}, []string{`"version": 1`, `"kept": "` + id + `"`}, named[:1], ""},
		{[]string{"undelete", id, "--from-cluster=x"}, []string{"volume pvc-orders is back in /a, with policy Retain: its last one was Delete", "orphans show pvc-orders --pool=/a"}, named[:1], ""},
		{[]string{"undelete", id, "-o", "json"}, []string{`"name": "pvc-orders"`}, named[:1], ""},
		{[]string{"undelete", "OTHER"}, nil, nil, "no pool keeps such a deleted volume"},
		{[]string{"remove", id}, []string{"removed " + id}, named[:1], ""},
		{[]string{"remove", "--namespace=other"}, []string{"removed " + named[2].Trash}, named[2:], ""},
		{[]string{"remove", "--namespace=none"}, nil, nil, `no pool keeps a deleted volume of namespace "none"`},
		{[]string{"remove", "--all"}, []string{"removed " + named[0].Trash, "removed " + named[2].Trash}, named, named[1].Trash + " (pvc-data) stays: a record may be"},
	} {
		u.asked, u.from = nil, ""
		var out bytes.Buffer
		err := run(t.Context(), append(append([]string{"trash"}, row.args...), address), &out)
		if (err != nil) != (row.fails != "") || err != nil && !strings.Contains(err.Error(), row.fails) || len(u.asked) != len(row.asked) {
			t.Errorf("%q: %v, asked for %+v\n%s", row.args, err, u.asked, out.String())
			continue
		}
		for _, want := range row.asked {
			found := false
			for _, got := range u.asked {
				found = found || got.Pool == want.Pool && got.Name == want.Name && got.Trash == want.Trash && got.Created.Equal(want.Created)
			}
			if !found {
				t.Errorf("%q: asked for %+v, not for %+v", row.args, u.asked, want)
			}
		}
		if named := strings.Contains(strings.Join(row.args, " "), "--from-cluster"); named != (u.from == "x") {
			t.Errorf("%q: cluster %q", row.args, u.from)
		}
		if strings.Contains(out.String(), "pvc-gone") {
			t.Errorf("%q lists a volume that is not on the disk:\n%s", row.args, out.String())
		}
		for _, words := range row.words {
			if !strings.Contains(out.String(), words) {
				t.Errorf("%q: no %q in\n%s", row.args, words, out.String())
			}
		}
	}
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	err := run(t.Context(), []string{"trash", "--http-address=" + strings.TrimPrefix(none.URL, "http://")}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "a sidecar serves its claims") {
		t.Errorf("behind a sidecar: %v", err)
	}
}

func TestTrashUsage(t *testing.T) {
	clean(t)
	for _, args := range [][]string{{"delete", "ID"}, {"undelete"}, {"plan"}, {"remove"}, {"undelete", "a", "b"}, {"remove", "a", "--all"},
		{"remove", "--all", "--namespace=x"}, {"remove", "a", "b"}, {"-o", "xml"}} {
		if err := run(t.Context(), append([]string{"trash"}, args...), &bytes.Buffer{}); err == nil || agent.ExitCode(err) != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
	var help bytes.Buffer
	if err := run(t.Context(), []string{"trash", "--help"}, &help); err != nil || !strings.Contains(help.String(), "trash undelete ID") {
		t.Errorf("--help: %v: %s", err, help.String())
	}
}
