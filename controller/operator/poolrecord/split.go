package poolrecord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Shards is into how many more ConfigMaps the holders of a large cluster go. The operator's Role names
// them.
const Shards = 16

// maxWhole bounds the bytes of a record in one ConfigMap. etcd accepts objects of 1.5 MiB, and the API
// server ConfigMaps of 1 MiB.
const maxWhole = 256 << 10

// shard is one of the further ConfigMaps.
type shard struct {
	object  corev1.ConfigMap
	found   bool
	holders map[string]Holder // as they were read or written
}

// ShardName returns the name of a further ConfigMap.
func ShardName(i int) string { return fmt.Sprintf("%s-%x", Name, i) }

// shardOf returns the ConfigMap of the holders of a node.
func shardOf(node string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node)) // it returns no error
	return int(h.Sum32() % Shards)
}

// byShard returns the holders of each ConfigMap.
func byShard(all map[string]Holder) (parts [Shards]map[string]Holder) {
	for name, h := range all {
		i := shardOf(h.Node)
		if parts[i] == nil {
			parts[i] = map[string]Holder{}
		}
		parts[i][name] = h
	}
	return parts
}

// readShards reads the holders of a record that is split. A ConfigMap that is gone has none: the caller
// makes their entries again from the Deployments, as it does without a record.
func (r *Record) readShards(ctx context.Context) error {
	r.Holders = map[string]Holder{}
	for i := range r.shards {
		if err := r.readShard(ctx, i); err != nil {
			return err
		}
		maps.Copy(r.Holders, r.shards[i].holders)
	}
	return nil
}

func (r *Record) readShard(ctx context.Context, i int) error {
	s := shard{object: objectOf(r.object.Namespace, ShardName(i))}
	have := corev1.ConfigMap{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(&s.object), &have)
	switch {
	case apierrors.IsNotFound(err):
		r.shards[i] = s
		return nil
	case err != nil:
		return fmt.Errorf("read ConfigMap %s: %w", s.object.Name, err)
	}
	s.object, s.found = have, true
	err = json.Unmarshal([]byte(have.Data[key]), &s.holders)
	if err == nil && s.holders == nil { // writeShards writes an empty object
		err = errors.New("it has no holders")
	}
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %s: %w; restore it, or delete it, and the operator makes it again from "+
			"the Deployments", s.object.Name, key, err)
	}
	r.shards[i] = s
	return nil
}

// writeShards writes the holders into their ConfigMaps. Before the first ConfigMap says that the record
// is split, they have no effect: what an earlier time left in them is overwritten.
func (r *Record) writeShards(ctx context.Context, to client.Client, all map[string]Holder) error {
	for i, holders := range byShard(all) {
		if !r.written.Split {
			if err := r.forget(ctx, i); err != nil {
				return err
			}
		}
		s := &r.shards[i]
		if maps.Equal(s.holders, holders) && (s.found || len(holders) == 0) && r.written.Split {
			continue
		}
		if !s.found && len(holders) == 0 {
			continue
		}
		if holders == nil {
			holders = map[string]Holder{}
		}
		text, err := json.Marshal(holders)
		if err != nil {
			return err
		}
		s.object.Data = map[string]string{key: string(text)}
		if err := write(ctx, to, &s.object, s.found); err != nil {
			return err
		}
		s.found, s.holders = true, holders
	}
	return nil
}

// forget reads which ConfigMap is there, and not what an earlier time left in it.
func (r *Record) forget(ctx context.Context, i int) error {
	s := shard{object: objectOf(r.object.Namespace, ShardName(i))}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(&s.object), &s.object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read ConfigMap %s: %w", s.object.Name, err)
	}
	if err != nil {
		s.object = objectOf(r.object.Namespace, ShardName(i))
	}
	s.found = err == nil
	r.shards[i] = s
	return nil
}

func write(ctx context.Context, to client.Client, o *corev1.ConfigMap, found bool) (err error) {
	if found {
		err = to.Update(ctx, o)
	} else {
		err = to.Create(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", o.Name, err)
	}
	return nil
}

func objectOf(namespace, name string) corev1.ConfigMap {
	return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{"k8s-app": "hostpath-provisioner",
			"app.kubernetes.io/managed-by": "hostpath-provisioner-operator"}}}
}
