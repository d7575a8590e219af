package vm_test

import "testing"

// A disk that answers no read, which takes device-mapper.
func TestReadHangs(t *testing.T) {
	m := machine(t, "./volume")
	m.Disks, m.Env = []string{disk(t, "mkfs.ext4")}, []string{"PLAIN=/dev/vda"}
	m.Modules, m.Output = []string{"ext4", "dm_mod"}, linesOf(t)
	run(t, m, "-test.run=^TestVMReadHangs$")
}
