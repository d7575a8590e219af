package disks

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Names of cybozu's local-pv-provisioner. Users and PVs depend on them, so they do not change.
const (
	// AnnSpec on a Node names the ConfigMap of its devices.
	AnnSpec = "local-pv-provisioner.cybozu.io/pv-spec-configmap"
	// LabelNode on a PV is its node. All PVs have the label by its older name, too.
	LabelNode      = contract.LabelDisk
	LabelNodeOlder = contract.LabelDiskOlder

	// The annotations of a PV have this prefix and the keys of the ConfigMap that it was made from.
	annPrefix    = "local-pv-provisioner.cybozu.io/"
	keyClass     = "storageClassName"
	keyMode      = "volumeMode"
	keyFSType    = "fsType"
	keyDir       = "deviceDir"
	keyFilter    = "deviceNameFilter"
	keyWipe      = "wipe"
	keyExisting  = "existing"
	keyEncrypt   = "encrypt"
	keyOptions   = "mountOptions" // not in local-pv-provisioner
	existingWipe = "wipe"
	existingKeep = "refuse"
)

// maxName is the longest name of a PV that the API server accepts.
const maxName = 253

var notInNames = regexp.MustCompile("[^.0-9A-Za-z]+")

// pvName returns the name of the PV of a device: the one that local-pv-provisioner gives if it fits
// and is not taken, otherwise one with a hash of the path.
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
