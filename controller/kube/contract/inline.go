package contract

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The values of the setting of inline volumes that are no list of pools.
const (
	anyInline = "any"
	noInline  = "none"
)

// InlineVolumes says in which pools pods may have new ephemeral inline volumes, and how large. No
// class, quota or role of Kubernetes limits these: their pool and size are attributes in the pod. The
// zero value allows each pool and size.
type InlineVolumes struct {
	limited bool
	largest map[string]int64 // by pool
}

// ParseInlineVolumes parses "any", "none", or a list of pools with commas between, each with the
// largest size or "any": "scratch=1Gi,fast=any".
func ParseInlineVolumes(text string) (InlineVolumes, error) {
	switch text = strings.TrimSpace(text); text {
	case anyInline:
		return InlineVolumes{}, nil
	case noInline:
		return InlineVolumes{limited: true}, nil
	}
	limits := InlineVolumes{limited: true, largest: map[string]int64{}}
	for part := range strings.SplitSeq(text, ",") {
		pool, size, _ := strings.Cut(strings.TrimSpace(part), "=")
		largest := int64(math.MaxInt64)
		if size != anyInline {
			q, err := resource.ParseQuantity(size)
			if err != nil || q.Sign() <= 0 {
				return limits, fmt.Errorf("%q is no size such as 1Gi", size)
			}
			largest = WholeBytes(&q)
		}
		if _, twice := limits.largest[pool]; pool == "" || twice || strings.ContainsAny(pool, " \t") {
			return limits, fmt.Errorf("%q is no pool, or one that was named before", pool)
		}
		limits.largest[pool] = largest
	}
	return limits, nil
}

// Allows reports whether the pool may have new inline volumes of some size.
func (l InlineVolumes) Allows(pool string) bool {
	_, listed := l.largest[pool]
	return listed || !l.limited
}

// Check returns nil if a pod may have a new inline volume of the size in the pool. Otherwise the
// error says what may be.
func (l InlineVolumes) Check(pool string, bytes int64) error {
	switch largest, listed := l.largest[pool]; {
	case !l.limited, listed && bytes <= largest:
		return nil
	case listed:
		return fmt.Errorf("an inline volume in pool %s may have %s at most, and %s is requested: use a claim, for which "+
			"quotas can be set, or ask the administrator, who sets HPP_INLINE_VOLUMES", pool, Size(largest), Size(bytes))
	case len(l.largest) == 0:
		return errors.New("inline volumes are not offered: use a claim or a generic ephemeral volume, for which quotas " +
			"can be set; the administrator sets HPP_INLINE_VOLUMES")
	}
	return fmt.Errorf("pool %s offers no inline volumes; those that do are %q: use one of these, or a claim; the "+
		"administrator sets HPP_INLINE_VOLUMES", pool, slices.Sorted(maps.Keys(l.largest)))
}
