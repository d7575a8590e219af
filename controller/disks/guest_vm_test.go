//go:build vm

package disks

import _ "kubevirt.io/hostpath-provisioner/volume/vmtest" // keeps these tests off this machine's disks
