package orphans

import (
	"context"
	"fmt"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// tenant returns an error if the namespace, in which a volume gets a claim, may be of another tenant than
// the one who had the volume, and notes where that is not known. meant is set if the caller named the
// namespace, or if it has the recorded claim itself.
func (o *Checker) tenant(ctx context.Context, r record.Record, namespace string, meant bool) (notes []string, err error) {
	if r.Owner.Namespace == "" && !meant {
		return nil, nil // the note about the claim has it
	}
	ns, forbidden, err := live.Namespace(ctx, o.Client, namespace)
	if err != nil {
		return nil, err
	}
	here, err := live.Cluster(ctx, o.Client)
	if err != nil {
		return nil, err
	}
	switch {
	case forbidden && !meant:
		return []string{fmt.Sprintf("the agent may not read namespace %s: check that it is the tenant's who had the volume, "+
			"and no later one of that name", namespace)}, nil
	case forbidden:
		return nil, nil
	case ns == nil:
		return []string{fmt.Sprintf("namespace %s does not exist: create it first", namespace)}, nil
	case ns.DeletionTimestamp != nil:
		return nil, fmt.Errorf("namespace %s is being deleted", namespace)
	case meant:
		return nil, nil
	case r.Cluster == "" || r.Cluster != here:
		return []string{fmt.Sprintf("the volume was recorded in cluster %q, and this one is %q: check that namespace %s is of "+
			"the tenant who had the volume", r.Cluster, here, namespace)}, nil
	}
	of := recovery.Volume{Created: r.Created}
	if r.Claim != nil {
		of.ClaimCreated, of.NamespaceUID = r.Claim.Created, r.Claim.NamespaceUID
	}
	if why := recovery.OtherTenant(of, ns); why != "" {
		return nil, fmt.Errorf("%s; name the claim with --as=NAMESPACE/CLAIM if it is meant", why)
	}
	return nil, nil
}
