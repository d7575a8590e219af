package orphans

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// mostDecided bounds for how many orphans List reads claims from the API server.
const mostDecided = 100

// List returns the volumes of all pools that the last check found to be orphans, and whether Remove
// would keep each. It omits inline volumes. The error names the pools that are not ready; the others
// are in the list.
func (o *Checker) List(ctx context.Context) ([]Orphan, error) { return o.list(ctx, mostDecided) }

func (o *Checker) list(ctx context.Context, most int) (all []Orphan, err error) {
	var errs []error
	var pools []*volume.Pool
	var records []record.Record
	for _, pool := range o.Pools.All() {
		if pool.NotOffered() != "" {
			continue
		}
		volumes, err := pool.List()
		errs = append(errs, err)
		found := pool.SetAside()
		for _, v := range volumes {
			found = append(found, v.Record)
		}
		for _, r := range found {
			if r.Orphan.Why != "" && !r.Ephemeral {
				pools, records = append(pools, pool), append(records, r)
			}
		}
	}
	once := o.askedOnce(ctx, records)
	for i, r := range records {
		it := describe(pools[i], r)
		it.Kept = fmt.Sprintf("unknown: only the first %d are checked; remove checks each", most)
		if i < most {
			it.Kept = o.wouldKeep(ctx, pools[i], r, once)
		}
		all = append(all, it)
	}
	return all, errors.Join(errs...)
}

// wouldKeep returns the error of Remove, "" if there is none.
func (o *Checker) wouldKeep(ctx context.Context, pool *volume.Pool, r record.Record, of asked) string {
	cluster, err := o.decide(ctx, pool, r, 0, of)
	if err == nil {
		err = pool.MayDelete(r.Name, still(cluster, 0))
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// askedOnce reads for many volumes the cluster and its PVs once, when they are asked for first.
func (o *Checker) askedOnce(ctx context.Context, of []record.Record) asked {
	cluster := sync.OnceValues(func() (string, error) { return live.Cluster(ctx, o.Client) })
	names := sync.OnceValues(func() (map[string]string, error) { // of PVs, by volumes
		all := map[string]string{}
		return all, live.EachPV(ctx, o.Client, func(pv *corev1.PersistentVolume) bool {
			for i := range of {
				if mayName(pv, of[i]) {
					all[of[i].Name+"/"+of[i].PV] = pv.Name
				}
			}
			return true
		})
	})
	return asked{
		cluster: func(context.Context) (string, error) { return cluster() },
		naming: func(_ context.Context, r record.Record) (string, error) {
			all, err := names()
			return all[r.Name+"/"+r.PV], err
		},
	}
}

func describe(pool *volume.Pool, r record.Record) Orphan {
	return Orphan{
		Pool: pool.Path(), PoolUUID: pool.ID(), Name: r.Name, Bytes: r.Bytes, PV: pvOf(r),
		Claim: strings.TrimPrefix(r.Owner.Namespace+"/"+r.Owner.Name, "/"), ReclaimPolicy: r.ReclaimPolicy,
		Since: r.Orphan.Since, Why: r.Orphan.Why,
	}
}
