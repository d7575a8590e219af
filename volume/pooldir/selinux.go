package pooldir

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

const (
	// LabelAuto as Config.Label means DefaultLabel on filesystems that carry
	// SELinux labels, and none elsewhere.
	LabelAuto = "auto"
	// DefaultLabel lets every container use a volume. It has no categories:
	// those are a pod's, given by the container runtime.
	DefaultLabel = "system_u:object_r:container_file_t:s0"
)

// chooseLabel returns the label of new volumes. SELinux announces itself in
// the filesystem's options as "seclabel" (selinux_sb_show_options in
// security/selinux/hooks.c); a filesystem mounted with context= does not, and
// takes no labels.
func (o *Opener) chooseLabel(d *Dir) (string, error) {
	if o.config.Label != LabelAuto {
		return o.config.Label, nil
	}
	all, err := mount.Self()
	if err != nil {
		return "", err
	}
	if home, ok := mount.ByID(all, int(d.at.mount)); ok && home.SuperOption("seclabel") {
		return DefaultLabel, nil
	}
	return "", nil
}

// SetLabel labels the directory that fd has open. It does nothing where no
// label is wanted. A filesystem that takes none is an error only where the
// label was asked for by its name.
func (d *Dir) SetLabel(fd int) error {
	if d.label == "" {
		return nil
	}
	d.step("create.label")
	err := unix.Fsetxattr(fd, "security.selinux", append([]byte(d.label), 0), 0)
	if err == nil || err == unix.ENOTSUP && d.labelIfPossible {
		return nil
	}
	return fmt.Errorf("set SELinux label %q: %w", d.label, err)
}
