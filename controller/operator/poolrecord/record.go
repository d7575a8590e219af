// Package poolrecord has the operator's own record: which pools the agents offer, and which disks
// are mounted for pools on claims. It decides where a pool is and what is unmounted. The agents'
// DaemonSet, its pods and the Deployments of disks do not: users can change and delete them.
//
// The record is a ConfigMap without an owner, so that it outlives the resource as the disks do. It is
// read from the API server: an older one from a cache would drop a pool. The holders of a large cluster
// are in further ConfigMaps, by the hash of their node. An entry is written before its object is made,
// and removed after it is gone, so that no two need one write. The first says whether the record is
// split: an earlier version drops that, and writes all holders there, and then these count.
package poolrecord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Name is the name of the ConfigMap, and key that of its only entry.
const (
	Name = "hostpath-provisioner-pools"
	key  = "record.json"
)

// Content is what is recorded.
type Content struct {
	// Offer is what agents offer, or may offer until all of them are replaced.
	Offer
	// Holders are the disks that are mounted, by the names of their Deployments.
	Holders map[string]Holder `json:"holders,omitempty"`
	// Settings are the last valid values of the ConfigMap with settings. They apply while a value
	// cannot be read.
	Settings map[string]string `json:"settings,omitempty"`
	// Split is set if the holders are in further ConfigMaps.
	Split bool `json:"split,omitempty"`
}

// Record is the record as it was read. It is not written if it has changed since.
type Record struct {
	Content
	// Found is false if there is none yet.
	Found bool

	written Content
	object  corev1.ConfigMap
	shards  [Shards]shard
	live    client.Reader
}

// Read reads the record. One that cannot be understood is an error: nothing is decided without it.
func Read(ctx context.Context, live client.Reader, namespace string) (*Record, error) {
	r := &Record{object: objectOf(namespace, Name), live: live}
	have := corev1.ConfigMap{}
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, &have)
	if apierrors.IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", Name, err)
	}
	r.object, r.Found = have, true
	err = parse(have.Data[key], &r.Content)
	if err == nil && r.Split {
		if err := r.readShards(ctx); err != nil {
			return nil, err
		}
	}
	if err == nil {
		err = r.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %s: %w; restore it, or delete it, and the operator makes it again from the "+
			"agents' DaemonSet", Name, key, err)
	}
	r.written = r.copy()
	return r, nil
}

// parse reads what Write wrote, which always names the pools, also if there are none. Without that name
// others changed it, and it does not say that there are none.
func parse(text string, c *Content) error {
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return err
	}
	var has map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &has); err != nil {
		return err
	}
	if _, named := has["pools"]; !named {
		return errors.New("it has no pools")
	}
	return nil
}

// validate refuses paths at which nothing is mounted or unmounted.
func (c Content) validate() error {
	paths := []string{}
	for _, p := range c.Pools {
		paths = append(paths, p.Path)
	}
	for _, h := range c.Holders {
		if h.Path != "" {
			paths = append(paths, h.Path)
		}
	}
	for _, path := range paths {
		if !IsPath(path) {
			return fmt.Errorf("the path %q is not that of a pool", path)
		}
	}
	return nil
}

// copy returns the content with maps and lists of its own.
func (c Content) copy() (to Content) {
	text, err := json.Marshal(c)
	if err != nil || json.Unmarshal(text, &to) != nil {
		return Content{}
	}
	return to
}

// Write writes the record if it differs.
func (r *Record) Write(ctx context.Context, to client.Client) error {
	now := r.copy()
	if r.Found && reflect.DeepEqual(now, r.written) {
		return nil
	}
	text, err := json.MarshalIndent(now, "", " ")
	if err != nil {
		return err
	}
	if now.Split = now.Split || len(text) > maxWhole; now.Split {
		if err := r.writeShards(ctx, to, now.Holders); err != nil {
			return err
		}
		first := now
		first.Holders = nil
		if text, err = json.MarshalIndent(first, "", " "); err != nil {
			return err
		}
	}
	if data := map[string]string{key: string(text)}; !r.Found || !maps.Equal(r.object.Data, data) {
		r.object.Data = data
		if err := write(ctx, to, &r.object, r.Found); err != nil {
			return err
		}
	}
	r.Split, r.written, r.Found = now.Split, now, true
	return nil
}

// Delete deletes the record as it was read.
func (r *Record) Delete(ctx context.Context, from client.Client) error {
	if !r.Found {
		return nil
	}
	for i := range r.shards {
		if s := &r.shards[i]; s.found {
			if err := remove(ctx, from, &s.object); err != nil {
				return err
			}
		}
	}
	return remove(ctx, from, &r.object)
}

func remove(ctx context.Context, from client.Client, o *corev1.ConfigMap) error {
	err := from.Delete(ctx, o, client.Preconditions{UID: new(o.UID), ResourceVersion: new(o.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ConfigMap %s: %w", o.Name, err)
	}
	return nil
}
