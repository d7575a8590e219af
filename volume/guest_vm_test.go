//go:build vm

package volume_test

import _ "kubevirt.io/hostpath-provisioner/volume/vmtest" // keeps these tests off this machine's disks
