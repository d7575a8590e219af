package recovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Recovery recovers volumes.
type Recovery struct {
	Client kubernetes.Interface
	recovery.Options
	// Namespace is the recorded one of the volumes; "" for those of all.
	Namespace string
}

// Volume is a volume of a node, with what becomes of it.
type Volume struct {
	Node string `json:"node"`
	recovery.Volume
	// To is the namespace that the claim is made in, if it is another than the recorded one.
	To string `json:"toNamespace,omitempty"`
	// Failed is why it could not be recovered; "" if it was, or was not tried.
	Failed string `json:"failed,omitempty"`
	// Bound is set once PV and claim are Bound.
	Bound bool `json:"bound,omitempty"`

	agent cluster.Agent
}

// Agent returns the agent whose plan has the volume.
func (v *Volume) Agent() cluster.Agent { return v.agent }

// Trusted returns why the plan of an agent must not be applied, "" if it may be. A user who runs a pod with
// the labels of an agent decides what is in its plan. So its account must be one that makes PVs: a
// user of that account could make the PV without help.
func (r *Recovery) Trusted(ctx context.Context, a cluster.Agent) string {
	account := "system:serviceaccount:" + a.Namespace + ":" + a.ServiceAccount
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Namespace,
			"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "persistentvolumes"}}}
	answer, err := r.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return fmt.Sprintf("it is not known whether its plan can be trusted: create subjectaccessreviews: %v", err)
	case !answer.Status.Allowed:
		return fmt.Sprintf("its plan is not trusted: account %s may not create PVs, so the pod %s/%s is no agent that "+
			"makes them", account, a.Namespace, a.Pod)
	}
	return ""
}

// Decide returns the volumes of all plans, and what becomes of each. It also returns the PVs of those
// nodes whose volume is in no pool.
func (r *Recovery) Decide(ctx context.Context, plans []agents.Planned) ([]*Volume, error) {
	s, err := r.scene(ctx)
	if err != nil {
		return nil, err
	}
	var all []*Volume
	known := map[string]bool{}  // pools and volumes
	listed := map[string]bool{} // the same of each node: an agent that is being replaced has them again
	for _, p := range plans {
		for _, v := range p.Volumes {
			key := v.PoolUUID + "/" + v.Name
			here := p.Agent.Node + "/" + key
			if r.Namespace != "" && v.Namespace != r.Namespace || v.Name != "" && listed[here] {
				continue
			}
			known[key], listed[here] = true, true
			it := &Volume{Node: p.Agent.Node, Volume: v, agent: p.Agent}
			if to := r.Target(v); to != v.Namespace {
				it.To = to
			}
			it.Finding = r.decide(ctx, s, it)
			if it.Verdict != recovery.Made {
				it.Notes = nil
			}
			all = append(all, it)
		}
	}
	together := make([]recovery.OnNode, len(all))
	for i, v := range all {
		together[i] = recovery.OnNode{Node: v.Node, Volume: &v.Volume}
	}
	recovery.Together(together, r.Options)
	return append(all, r.withoutVolume(s, plans, known)...), nil
}

// scene is what all volumes need of the API server.
type scene struct {
	here       string
	pvs        []*corev1.PersistentVolume
	namespaces map[string]*corev1.Namespace
}

func (r *Recovery) scene(ctx context.Context) (*scene, error) {
	s := &scene{namespaces: map[string]*corev1.Namespace{}}
	var err error
	if s.here, err = live.Cluster(ctx, r.Client); err != nil {
		return nil, err
	}
	return s, live.EachPV(ctx, r.Client, func(pv *corev1.PersistentVolume) bool {
		s.pvs = append(s.pvs, pv)
		return true
	})
}

// decide decides about a volume by what its user may read. What he may not read leaves it.
func (r *Recovery) decide(ctx context.Context, s *scene, it *Volume) recovery.Finding {
	f, err := r.facts(ctx, s, it)
	if err != nil {
		return recovery.Finding{Verdict: recovery.Left, Why: fmt.Sprintf("it is not known what is there: %v", err)}
	}
	it.LostNamespaceUID = recovery.LostNamespace(it.Volume, f, r.Options)
	found := recovery.Decide(it.Volume, f, r.Options)
	if found.Verdict == recovery.Made && (found.PVWrite || found.ClaimWrite == recovery.CreateClaim) {
		if err := r.check(it); err != nil {
			return recovery.Finding{Verdict: recovery.Left, Why: err.Error()}
		}
	}
	return found
}

// check returns an error if the plan lacks the objects, or they are more than the volume's.
func (r *Recovery) check(it *Volume) error {
	driver := it.agent.Driver
	if driver == "" {
		driver = contract.CSIProvisioner
	}
	return recovery.CheckObjects(it.Volume, it.Node, driver, r.Target(it.Volume))
}

// facts reads what the API server has of a volume's names.
func (r *Recovery) facts(ctx context.Context, s *scene, it *Volume) (f recovery.Facts, err error) {
	v := it.Volume
	f.Here, f.Driver = s.here, it.agent.Driver
	if v.Namespace == "" || v.Claim == "" || v.PVName == "" {
		return f, nil
	}
	target := r.Target(v)
	if f.Namespace, err = r.namespace(ctx, s, target); err != nil {
		return f, err
	}
	if f.Claim, err = live.NamedClaim(ctx, r.Client, target, v.Claim); err != nil {
		return f, err
	}
	for _, pv := range s.pvs {
		switch {
		case pv.Name == v.PVName:
			f.PV = pv
		case f.Claim != nil && f.Claim.Spec.VolumeName == "" && recovery.MadeFor(pv, f.Claim):
			f.Other = pv.Name
		}
	}
	return f, nil
}

func (r *Recovery) namespace(ctx context.Context, s *scene, name string) (*corev1.Namespace, error) {
	if ns, known := s.namespaces[name]; known {
		return ns, nil
	}
	ns, err := r.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		ns = nil
	case err != nil:
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	s.namespaces[name] = ns
	return ns, nil
}

// withoutVolume returns the PVs whose volumes no pool has: those that were deleted after the backup from
// which etcd was restored, for example. A pool that was not read has none of them.
func (r *Recovery) withoutVolume(s *scene, plans []agents.Planned, known map[string]bool) (all []*Volume) {
	agentOf := map[string]cluster.Agent{}
	for _, p := range plans {
		for _, uuid := range p.Pools {
			agentOf[uuid] = p.Agent
		}
	}
	for _, pv := range s.pvs {
		pool, ref := pv.Annotations[contract.AnnPool], pv.Spec.ClaimRef
		agent, read := agentOf[pool]
		ours := identity.Provisioned(pv) || pv.Spec.CSI != nil && pv.Spec.CSI.Driver == agent.Driver
		if !read || !ours || pv.DeletionTimestamp != nil || ref == nil ||
			r.Namespace != "" && ref.Namespace != r.Namespace || known[pool+"/"+recovery.DirectoryOf(pv)] {
			continue
		}
		v := recovery.Volume{PoolUUID: pool, Name: recovery.DirectoryOf(pv), PVName: pv.Name, Namespace: ref.Namespace,
			Claim: ref.Name,
			Finding: recovery.Finding{Verdict: recovery.Left,
				Why: fmt.Sprintf("PV %s is %s, and its pool has no such volume: it was deleted, such as after "+
					"the backup from which etcd was restored; if its pool keeps it, kubectl hpp undelete %s brings it back",
					pv.Name, pv.Status.Phase, pv.Name)}}
		all = append(all, &Volume{Node: agent.Node, Volume: v})
	}
	slices.SortFunc(all, func(a, b *Volume) int { return cmp.Compare(a.PVName, b.PVName) })
	return all
}
