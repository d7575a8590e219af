package claims

import (
	"cmp"
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// Space is what this node knows about the space that nodes publish for the scheduler. The
// scheduler chooses only nodes that publish enough for a claim's class.
type Space struct {
	Provisioner string // of the classes for which nodes publish space
	Namespace   string // of the CSIStorageCapacity objects of all agents
	// HasPool reports whether this node has the pool of the class.
	HasPool func(*storagev1.StorageClass) bool
	// Fit returns what this node has for such claims of the class. It may wait for a disk.
	Fit func(sc *storagev1.StorageClass, bytes int64) Fit
}

// Fit is what a node has for claims of a class.
type Fit struct {
	Pool string // the name of the class's pool
	Fits bool   // the pool is on this node, and can serve the claim now
	// Lack is the message about a claim of the class if no node publishes space for it.
	// It is "" if this node should publish some.
	Lack string
}

type offers struct {
	nodes   int
	largest int64
	node    string // publishes largest
	// all is set if every node counts. Otherwise largest is enough for the claim of the read.
	all bool
	at  time.Time
}

// For so long offers answer for other claims of the class, which bounds the lists.
const (
	enoughFor    = 10 * time.Minute
	notEnoughFor = time.Minute
)

func (o *offers) enough(bytes int64) bool { return o.nodes > 0 && o.largest >= bytes }

// checkSpace records an event if no node publishes space for the claim's class, or if none
// publishes enough. It does not use the API server if this node can serve the claim.
func (r *unservedRecorder) checkSpace(ctx context.Context, p *pendingClaim) answer {
	sc := r.class(p.class)
	if sc == nil {
		return answer{false, recheckDelay} // it may be created again
	}
	fit := r.space.Fit(sc, p.bytes)
	if fit.Fits {
		return answer{false, enoughFor}
	}
	o, known := r.recent(sc, p.bytes)
	if known && o.enough(p.bytes) {
		return answer{false, enoughFor}
	}
	if r.events.Exists(ctx, p.ref, TopicUnserved) {
		return answer{true, events.RepeatAfter}
	}
	if !known {
		var err error
		if o, err = r.published(ctx, p); err != nil {
			if apierrors.IsForbidden(err) { // an older role
				return answer{true, events.RepeatAfter}
			}
			return answer{true, recheckDelay}
		}
		r.known.Add(offersKey(sc), o, enoughFor)
	}
	switch {
	case o.enough(p.bytes):
		return answer{true, enoughFor}
	case o.nodes > 0:
		r.warn(ctx, p, TopicUnserved, tooLarge(p, fit.Pool, o))
	case fit.Lack == "": // this node is about to publish
		return answer{true, recheckDelay}
	default:
		r.warn(ctx, p, TopicUnserved, fit.Lack)
	}
	return answer{true, events.RepeatAfter}
}

// recent returns offers that were read recently enough to decide whether a node has the bytes.
func (r *unservedRecorder) recent(sc *storagev1.StorageClass, bytes int64) (o offers, known bool) {
	if o, known := r.known.Get(offersKey(sc)); known {
		o := o.(offers)
		return o, o.enough(bytes) || o.all && time.Since(o.at) < notEnoughFor
	}
	return offers{}, false
}

func offersKey(sc *storagev1.StorageClass) string { return "class " + string(sc.UID) }

// published reads what the nodes publish for the claim's class, until one has enough. It
// ignores what is left of nodes that do not exist, and objects for nodes that an autoscaler may add.
func (r *unservedRecorder) published(ctx context.Context, p *pendingClaim) (o offers, err error) {
	o.at = time.Now()
	err = live.EachCapacity(ctx, r.client, r.space.Namespace, func(c *storagev1.CSIStorageCapacity) bool {
		node, size := contract.CapacityNode(c), sizeOf(c)
		if c.StorageClassName != p.class || node == "" {
			return true
		}
		if size > o.largest || o.nodes == 0 {
			if missing, _ := r.isMissingNode(ctx, node); missing {
				return true
			}
			o.largest, o.node = size, node
		}
		o.nodes++
		return o.largest < p.bytes
	})
	o.all = !o.enough(p.bytes)
	return o, err
}

// sizeOf returns the size of the largest volume that the object allows.
func sizeOf(c *storagev1.CSIStorageCapacity) int64 {
	return contract.WholeBytes(cmp.Or(c.MaximumVolumeSize, c.Capacity, &resource.Quantity{}))
}
