package claimpools

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/release"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// step is a holder that is wanted.
type step struct {
	name string
	// pool is the index of the pool and of its state.
	pool    int
	node    objects.Node
	claim   *corev1.PersistentVolumeClaim
	have    *appsv1.Deployment
	blocked bool // nothing is to be created or changed for it
}

// plan returns the holders that are wanted, after it created their claims and added them to the
// record. A holder at another path is not among them: it is unmounted there first. One on a node whose
// labels do not match any more is, because its volumes stay there.
func (r *Reconciler) plan(ctx context.Context, w objects.Desired, have map[string]*appsv1.Deployment,
	found *Result) (steps []step, err error) {
	for i, p := range w.Pools {
		s := newState(p, w.Count())
		for _, node := range w.Nodes {
			name := objects.NameOf(p.Name, node.Name)
			known, found := r.Record.Holders[name]
			if !found && !p.On(node) {
				s.DesiredReady--
				continue
			}
			if found && (known.Pool != p.Name || known.Node != node.Name) {
				s.Problems = append(s.Problems, collides(p.Name, node.Name, known))
				continue
			}
			if found && known.Path != p.Path {
				continue
			}
			claim, problem, err := r.claim(ctx, p, node.Name)
			if err != nil {
				return nil, err
			}
			s.addClaim(claim, problem)
			step := step{name: name, pool: i, node: node, claim: claim, have: have[name]}
			if step.blocked = claim == nil || objects.IsBlock(&claim.Spec); !step.blocked {
				if err := r.identify(ctx, w, &s, &step, poolrecord.Holder{Pool: p.Name, Node: node.Name, Path: p.Path,
					ClaimUID: claim.UID, Volume: cmp.Or(claim.Spec.VolumeName, known.Volume),
					ID: cmp.Or(node.Offered[p.Name], known.ID)}); err != nil {
					return nil, err
				}
				step.blocked = step.blocked || claim.DeletionTimestamp != nil
			}
			steps = append(steps, step)
		}
		found.States = append(found.States, s)
	}
	return steps, nil
}

// identify records the holder with its claim. If the claim was deleted and created again, the
// holder stays as it is while volumes use the disk of the former claim.
func (r *Reconciler) identify(ctx context.Context, w objects.Desired, s *State, step *step, h poolrecord.Holder) error {
	known := r.Record.Holders[step.name]
	sameVolume := known.Volume != "" && step.claim.Spec.VolumeName == known.Volume
	if known.ClaimUID != "" && known.ClaimUID != h.ClaimUID && step.have != nil && !sameVolume {
		node, err := r.Node(ctx, h.Node)
		if err != nil {
			return err
		}
		why, used, err := r.MayEnd(ctx, known, node, w)
		if err != nil {
			return err
		}
		if used {
			step.blocked = true
			s.Problems = append(s.Problems, fmt.Sprintf("claim %s was deleted and created again, and the pool's disk on "+
				"node %s is that of the claim before, %s; restore that claim, or remove the pool from the resource and delete "+
				"these", step.name, h.Node,
				why))
			return nil
		}
	}
	r.Record.Holders[step.name] = h
	return nil
}

// collides describes another holder that has the name.
func collides(pool, node string, known poolrecord.Holder) string {
	return fmt.Sprintf("on node %s its claim would have the name %s, which is that of pool %s on node %s; give pool %s "+
		"another name",
		node, objects.NameOf(pool, node), known.Pool, known.Node, pool)
}

// change creates the Deployments that are missing, and changes those of one node at a time: while a
// holder is replaced, no pod on its node has the claim. The next node follows when the pods of that
// one are ready. Deployments of a node that is not ready are changed when it is.
func (r *Reconciler) change(ctx context.Context, steps []step, found *Result) error {
	turn, open, err := r.turn(ctx, steps, found.States)
	if err != nil {
		return err
	}
	for _, step := range steps {
		s := &found.States[step.pool]
		if stopped, err := r.DeleteJobs(ctx, s.pool.Name, step.node.Name); err != nil || !stopped {
			if err != nil {
				return err
			}
			found.pollIf(true)
			continue
		}
		if problem, err := r.Guard(ctx, step.name); err != nil {
			return err
		} else if problem != "" {
			s.Problems = append(s.Problems, problem)
		}
		if step.claim != nil && step.claim.DeletionTimestamp != nil && step.have != nil && !mounted(step.have) {
			found.pollIf(true)
			h := release.Retired{Name: step.name, Holder: r.Record.Holders[step.name], Deployment: step.have}
			if err := r.End(ctx, h); err != nil {
				return err
			}
		}
		may := step.have == nil || turn == nil || turn[step.node.Name]
		if !step.blocked && may {
			if err := r.Apply(ctx, s.pool, step.node.Name); err != nil {
				return err
			}
		}
		found.pollIf(!may && open)
		s.addMount(step.claim, step.have, step.node)
	}
	return nil
}

// turn returns the nodes whose Deployments may be changed: those that are ready and have a holder
// that is not, after a change, or else the first with one that differs. nil allows all. open is set
// if there is a Deployment that differs, or whose pod is not ready.
func (r *Reconciler) turn(ctx context.Context, steps []step,
	states []State) (waited map[string]bool, open bool, err error) {
	waited = map[string]bool{}
	var differ []string
	for _, step := range steps {
		if step.have == nil || step.blocked {
			continue
		}
		differs, err := r.Differs(ctx, states[step.pool].pool, step.node.Name)
		if err != nil {
			return nil, false, err
		}
		waits := !mounted(step.have) && step.claim.Status.Phase == corev1.ClaimBound
		if !differs && !waits {
			continue
		}
		open = true
		node, err := r.Node(ctx, step.node.Name)
		if err != nil {
			return nil, false, err
		}
		if node == nil || !contract.NodeReady(node) {
			continue
		}
		if waits {
			waited[node.Name] = true
		}
		if differs {
			differ = append(differ, node.Name)
		}
	}
	if len(waited) == 0 && len(differ) > 0 {
		waited[differ[0]] = true
	}
	return waited, open, nil
}

// mounted reports whether the Deployment's pod is ready, as the Deployment is now.
func mounted(d *appsv1.Deployment) bool {
	return d.Status.ReadyReplicas > 0 && d.Status.ObservedGeneration == d.Generation
}
