//go:build vm

package disk

import _ "kubevirt.io/hostpath-provisioner/volume/vmtest" // keeps these tests off this machine's disks
