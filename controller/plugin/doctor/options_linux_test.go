package doctor

import (
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// The mount options that doctor accepts are those of the driver.
func TestBindOptions(t *testing.T) {
	for _, option := range append(slices.Clone(bindOptions), "discard", "", "noexec ", "user_xattr") {
		_, err := mount.ParseFlags([]string{option}, false)
		if (err == nil) != (notBind([]string{option}) == nil) {
			t.Errorf("%q: the driver has %v, and doctor %q", option, err, notBind([]string{option}))
		}
	}
}
