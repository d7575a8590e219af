package class

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Size prints bytes as a person would write them: 10Gi, 12.3Gi, 700 bytes.
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
