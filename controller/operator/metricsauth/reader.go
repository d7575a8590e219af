package metricsauth

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/manifests/monitoring"
)

// Name is the name of the account that may read the metrics, of its Secret and of its ClusterRole.
const Name = "hpp-metrics-reader"

// Reader is the account that may read the metrics.
type Reader struct {
	apply.Installation
	// Client reads from the cache, which has no Secret but the webhook's, and writes.
	Client client.Client
	// Live reads the Secret from the API server.
	Live client.Reader
	// Applier writes the other objects, and deletes them.
	Applier apply.Applier
}

// objects returns the account and its permission, in the order in which they are applied. All have the
// resource as their owner, those without a namespace too: a version of the operator that does not know
// them leaves them, and they go with the resource.
func (r Reader) objects(cr *v1beta1.HostPathProvisioner) (all []*unstructured.Unstructured, err error) {
	for document := range bytes.SplitSeq([]byte(monitoring.Reader), []byte("\n---\n")) {
		o, err := apply.Parse(document)
		if err != nil {
			return nil, fmt.Errorf("read the account for metrics: %w", err)
		}
		r.Own(o, cr)
		o.SetOwnerReferences(apply.OwnedBy(cr))
		all = append(all, o)
	}
	return all, nil
}

// Keep has the account while a client needs a token, and otherwise removes it.
func (r Reader) Keep(ctx context.Context, cr *v1beta1.HostPathProvisioner, needed bool) error {
	if !needed {
		return r.Remove(ctx, cr)
	}
	all, err := r.objects(cr)
	if err != nil {
		return err
	}
	if err := r.Applier.Apply(ctx, cr, all...); err != nil {
		return err
	}
	return r.ensureSecret(ctx, cr)
}

// Remove deletes the account, its permission and its Secret. It deletes no object that the operator did
// not make, and does nothing if there is none. The account goes last: while it is there, the Secret may
// be.
func (r Reader) Remove(ctx context.Context, cr *v1beta1.HostPathProvisioner) error {
	all, err := r.objects(cr)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	for _, o := range all {
		have, err := r.Applier.Read(ctx, o)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
		case have.GetLabels()[apply.ManagedBy] != apply.Owner || have.GetDeletionTimestamp() != nil:
			continue
		}
		if o.GetKind() == "ServiceAccount" {
			if err := r.removeSecret(ctx); err != nil {
				return err
			}
		}
		if err := r.Applier.Delete(ctx, have); err != nil {
			return err
		}
	}
	return nil
}
