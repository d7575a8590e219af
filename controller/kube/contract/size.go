package contract

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// WholeBytes returns a size in bytes, rounded up: math.MaxInt64, which no disk has, for any
// larger size, and 0 for a negative one. Quantity.Value wraps there: 2^64+1 bytes are 1.
func WholeBytes(size *resource.Quantity) int64 {
	switch {
	case size.Sign() <= 0:
		return 0
	case size.CmpInt64(math.MaxInt64) >= 0:
		return math.MaxInt64
	}
	return size.Value()
}

// Size formats bytes for people: 10Gi, 12.3Gi, 700 bytes.
func Size(bytes int64) string {
	const step = 1024
	if bytes < step {
		return fmt.Sprintf("%d bytes", bytes)
	}
	if q := resource.NewQuantity(bytes, resource.BinarySI).String(); len(q) <= 6 && q[len(q)-1] == 'i' {
		return q
	}
	value, units := float64(bytes)/step, "KMGTPE"
	for value >= step && len(units) > 1 {
		value, units = value/step, units[1:]
	}
	return fmt.Sprintf("%s%ci", strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0"), units[0])
}

// WholeDisk returns the capacity that older provisioners write on every PV: the size
// of the filesystem, rounded down to whole GiB from 10 GiB, to whole MiB from 10 MiB,
// and not rounded below. It is at least the requested size.
func WholeDisk(total, asked int64) resource.Quantity {
	const mib, gib = 1 << 20, 1 << 30
	for _, unit := range []int64{gib, mib} {
		if total >= 10*unit {
			total -= total % unit
			break
		}
	}
	return *resource.NewQuantity(max(total, asked), resource.BinarySI)
}
