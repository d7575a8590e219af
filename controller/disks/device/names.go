package device

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strings"
)

// Names of cybozu's local-pv-provisioner, whose users and PVs depend on them. They do not change.
const (
	// AnnSpec on a Node names the ConfigMap of its devices.
	AnnSpec = "local-pv-provisioner.cybozu.io/pv-spec-configmap"
	// LabelNode on a PV is its node. It has two names, of which the older one is selected by.
	LabelNode      = "local-pv-provisioner.cybozu.io/node"
	LabelNodeOlder = "local-pv-provisioner.cybozu.com/node"

	// The annotations of a PV are the ConfigMap that it was made by.
	annPrefix    = "local-pv-provisioner.cybozu.io/"
	keyClass     = "storageClassName"
	keyMode      = "volumeMode"
	keyFSType    = "fsType"
	keyDir       = "deviceDir"
	keyFilter    = "deviceNameFilter"
	keyWipe      = "wipe"
	keyExisting  = "existing"
	keyEncrypt   = "encrypt"
	keyOptions   = "mountOptions" // of this program alone
	existingWipe = "wipe"
	existingKeep = "refuse"
)

// maxName is the longest name that a PV can have.
const maxName = 253

var notInNames = regexp.MustCompile("[^.0-9A-Za-z]+")

// pvName returns the name of the PV of a device: that of the older program if it fits and no other
// device has it, else with a hash of the path.
func pvName(node, path string, taken func(name string) bool) string {
	name := plainName(node, path)
	if len(name) <= maxName && !taken(name) {
		return name
	}
	return hashedName(name, path)
}

func plainName(node, path string) string {
	name := strings.ToLower(notInNames.ReplaceAllString("local-"+node+"-"+filepath.Base(path), "-"))
	return strings.TrimRight(name, "-.") // what the API server refuses as the end of a name
}

func hashedName(name, path string) string {
	sum := sha256.Sum256([]byte(path))
	suffix := "-" + hex.EncodeToString(sum[:])[:8]
	return strings.TrimRight(name[:min(len(name), maxName-len(suffix))], "-.") + suffix
}
