package poolrecord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// holders returns the holders of so many pools on so many nodes, with names of a cloud's length.
func holders(pools, nodes int) map[string]Holder {
	all := map[string]Holder{}
	for n := range nodes {
		for p := range pools {
			node := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", n/250, n%250)
			h := Holder{Pool: fmt.Sprintf("array-of-fast-disks-%02d", p), Node: node, Path: fmt.Sprintf("/var/lib/storage/array-%02d/csi", p),
				ClaimUID: types.UID(fmt.Sprintf("0b1c2d3e-4f50-6172-8394-%012d", n*100+p)), Volume: fmt.Sprintf("pvc-0b1c2d3e-4f50-6172-8394-%012d", n*100+p),
				ID: fmt.Sprintf("9b1c2d3e-4f50-6172-8394-%012d", n*100+p)}
			all[fmt.Sprintf("hpp-pool-%08x", n*100+p)] = h
		}
	}
	return all
}

// limited is an API server that refuses ConfigMaps of more than a MiB, and ends after a number of writes
// if that is not negative.
func limited(t *testing.T, writes *int) client.WithWatch {
	check := func(o client.Object) error {
		if *writes == 0 {
			return errors.New("killed")
		}
		*writes--
		size := 0
		for _, v := range o.(*corev1.ConfigMap).Data {
			size += len(v)
		}
		if size > 1<<20 {
			t.Errorf("ConfigMap %s has %d bytes", o.GetName(), size)
		}
		return nil
	}
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := check(o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := check(o); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		}}).Build()
}

// The record of 32 pools on 1,000 nodes fits, and one change of it is one write.
func TestLargeRecord(t *testing.T) {
	writes := -1
	c := limited(t, &writes)
	r := read(t, c)
	r.Pools = []Pool{{Name: "a", Path: "/a/csi"}}
	r.Holders = holders(32, 1000)
	if err := r.Write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	again := read(t, c)
	if !again.Split || !maps.Equal(again.Holders, r.Holders) || again.Pools[0] != r.Pools[0] {
		t.Fatalf("split %t, %d holders of %d", again.Split, len(again.Holders), len(r.Holders))
	}
	delete(again.Holders, "hpp-pool-00000000")
	writes = 1
	if err := again.Write(t.Context(), c); err != nil {
		t.Errorf("a change needs more than one write: %v", err)
	}
	if writes = -1; len(read(t, c).Holders) != 31999 {
		t.Error("the change is not recorded")
	}
	if err := r.Write(t.Context(), c); err != nil {
		t.Errorf("nothing to write: %v", err)
	}
	r.Holders["more"] = Holder{Pool: "p", Node: again.Holders["hpp-pool-00000001"].Node, Path: "/p/csi"}
	if err := r.Write(t.Context(), c); err == nil {
		t.Error("an older record is written")
	}
	if err := read(t, c).Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var left corev1.ConfigMapList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 0 {
		t.Errorf("%d ConfigMaps are left, %v", len(left.Items), err)
	}
}

// A record that grows is split by an operator that is killed before any of its writes. At each time it
// has all that was recorded before, or what was to be written.
func TestSplitKilled(t *testing.T) {
	for n := range Shards + 2 {
		writes := -1
		c := limited(t, &writes)
		before := holders(1, 40)
		r := read(t, c)
		r.Holders = before
		if err := r.Write(t.Context(), c); err != nil || r.Split {
			t.Fatal(r.Split, err)
		}
		after := holders(8, 400)
		writes, r.Holders = n, after
		err := r.Write(t.Context(), c)
		writes = -1
		now := read(t, c)
		if want := map[bool]map[string]Holder{true: after, false: before}[err == nil]; !maps.Equal(now.Holders, want) {
			t.Errorf("killed after %d writes: %d holders", n, len(now.Holders))
		}
		now.Holders = after
		if err := now.Write(t.Context(), c); err != nil || !maps.Equal(read(t, c).Holders, after) {
			t.Errorf("the next operator, after %d writes: %v", n, err)
		}
	}
}

// An earlier version drops the field of a record that is split, and makes the holders again from the
// Deployments. Then these count, and what it left in the further ConfigMaps does not.
func TestSplitAndAnEarlierVersion(t *testing.T) {
	writes := -1
	c := limited(t, &writes)
	r := read(t, c)
	r.Holders = holders(8, 400)
	if err := r.Write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var first corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: Name}, &first); err != nil {
		t.Fatal(err)
	}
	theirs := holders(1, 3)
	text, err := json.Marshal(map[string]any{"pools": []Pool{}, "holders": theirs})
	if err != nil {
		t.Fatal(err)
	}
	first.Data = map[string]string{key: string(text)}
	if err := c.Update(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	now := read(t, c)
	if now.Split || !maps.Equal(now.Holders, theirs) {
		t.Errorf("split %t, %d holders", now.Split, len(now.Holders))
	}
	now.Holders = holders(9, 400)
	if err := now.Write(t.Context(), c); err != nil || !maps.Equal(read(t, c).Holders, now.Holders) {
		t.Errorf("%v, %d holders", err, len(read(t, c).Holders))
	}
}
