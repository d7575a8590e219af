// Package machine boots a distribution in a virtual machine, with a kubelet: Debian with systemd,
// cgroup v2, SELinux in enforcing mode, containerd, three disks with filesystems and blank ones. It
// is for what belongs to a whole machine: units, labels, disks, a reboot, a power cut. The control
// plane runs beside it, as processes of the host.
//
//	m, err := machine.Up(ctx, machine.Options{Dir: dir, Log: os.Stderr})
//	out, err := m.Run(ctx, "getenforce")
//	err = m.Reboot(ctx)
//	err = m.Down()
//
// The first call on a host makes the system's image with the distribution's packages, which takes
// minutes, and keeps it in the cache of the tests. Without hardware virtualization a machine boots
// in about a minute.
//
// Files:
//
//	machine.go   Machine: up, down, reboot, power cut
//	up.go        what up does
//	image.go     the system's image, from image.sh
//	disk.go      the disks of one machine
//	guest.go     what the guest's files say: kubelet, containerd, network
//	emulator.go  the process of the virtual machine
//	ssh.go       commands in the machine
package machine
