package pvs

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume outlives its PV and its claim if the cluster is lost. So its record keeps what both had,
// of which the claim's part is in no memory of the agent: claimRecorder reads each claim once after
// a start, at a bounded rate, and again when its PV was given away or has grown.

// claimsPerSecond is how many claims, and namespaces of theirs, are read in a second: all claims are
// read at each start, of all nodes at once if the agents are updated.
const claimsPerSecond = 10

// claimRecorder records the claims of bound volumes.
type claimRecorder struct {
	queue workqueue.TypedRateLimitingInterface[string] // names of PVs
	pace  flowcontrol.RateLimiter
	// recorded has of each PV the state as of which its claim was recorded. Only the workers of PVs
	// and the recorder use it, under PVs.mu.
	recorded map[string]claimState
}

// claimState changes with what is recorded of a PV. A change of the claim alone, such as of its
// labels, is recorded after the next start.
type claimState struct{ pv, claim, size, class string }

func newClaimRecorder() *claimRecorder {
	return &claimRecorder{recorded: map[string]claimState{},
		pace: flowcontrol.NewTokenBucketRateLimiter(claimsPerSecond, claimsPerSecond),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "claims"})}
}

func claimStateOf(pv *corev1.PersistentVolume) claimState {
	return claimState{string(pv.UID), contract.ClaimUID(pv), pv.Spec.Capacity.Storage().String(), pv.Spec.StorageClassName}
}

// recordClaim has the claim of a bound PV recorded soon, unless that was done.
func (p *PVs) recordClaim(pv *corev1.PersistentVolume) {
	if pv.Status.Phase != corev1.VolumeBound || pv.DeletionTimestamp != nil || contract.ClaimUID(pv) == "" {
		return
	}
	p.mu.Lock()
	done := p.recorder.recorded[pv.Name] == claimStateOf(pv)
	p.mu.Unlock()
	if !done {
		p.recorder.queue.Add(pv.Name)
	}
}

// forgetClaim forgets that the claim of a PV that is gone was recorded.
func (p *PVs) forgetClaim(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.recorder.recorded, name)
}

func (p *PVs) recordClaims(ctx context.Context) {
	defer context.AfterFunc(ctx, p.recorder.queue.ShutDown)()
	for {
		name, stop := p.recorder.queue.Get()
		if stop {
			return
		}
		if err := p.readClaim(ctx, name); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot record a claim yet", "PV", name, "err", err)
			p.recorder.queue.AddRateLimited(name)
		} else {
			p.recorder.queue.Forget(name)
		}
		p.recorder.queue.Done(name)
	}
}

// readClaim records the claim of a PV, as the API server has it. It does nothing while the two are
// not bound to each other, or the volume is not bound to them: the PV is then handled again, and is
// queued by that.
func (p *PVs) readClaim(ctx context.Context, name string) error {
	pv := p.Saved(name)
	if pv == nil {
		return nil
	}
	pool, v, err := p.VolumeOf(pv)
	if err != nil || v.Owner != ownerOf(pv) {
		return onlyNotReady(err)
	}
	namespace, err := p.namespaceUID(ctx, v)
	if err != nil {
		return err
	}
	if err := p.recorder.pace.Wait(ctx); err != nil {
		return err
	}
	claim, err := live.ClaimOf(ctx, p.Client, pv)
	if claim == nil || err != nil || claim.Spec.VolumeName != pv.Name {
		return err
	}
	changed, err := pool.RecordClaim(v.Name, pv.Name, ownerOf(pv), contract.Recorded(pv, claim, namespace))
	if err != nil {
		return onlyNotReady(err)
	}
	p.mu.Lock()
	p.recorder.recorded[pv.Name] = claimStateOf(pv)
	p.mu.Unlock()
	if changed {
		p.Changed(pool)
	}
	return nil
}

// namespaceUID returns the UID of the namespace of a volume's claim, "" if it cannot be known. A claim
// never moves, so what was recorded once with it stays true, also where the agent may not read
// namespaces any more.
//
// The caller reads the claim after it. If that claim still exists then, it existed when the namespace
// was read, because its UID was known before. Read in the other order, the namespace could be one that
// was made again since, of another tenant.
func (p *PVs) namespaceUID(ctx context.Context, v volume.Volume) (string, error) {
	if v.Claim != nil && v.Claim.NamespaceUID != "" {
		return v.Claim.NamespaceUID, nil
	}
	if err := p.recorder.pace.Wait(ctx); err != nil {
		return "", err
	}
	return live.NamespaceUID(ctx, p.Client, v.Owner.Namespace)
}

// onlyNotReady returns an error that a retry may end, and nil for others.
func onlyNotReady(err error) error {
	if errors.Is(err, volume.ErrNotReady) {
		return err
	}
	return nil
}
