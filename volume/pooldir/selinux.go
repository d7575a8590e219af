package pooldir

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

const (
	// LabelAuto as Config.Label sets DefaultLabel on filesystems that support SELinux labels, and no
	// label on others.
	LabelAuto = "auto"
	// DefaultLabel permits every container to use a volume. It has no categories; the container
	// runtime sets those of the pod.
	DefaultLabel = "system_u:object_r:container_file_t:s0"
)

// chooseLabel returns the label of new volumes. A filesystem that supports SELinux labels has the
// option "seclabel" (selinux_sb_show_options in security/selinux/hooks.c). A filesystem that is
// mounted with context= has not, and supports none.
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

// SetLabel sets the label of the directory that fd has open. It does nothing if no label is
// configured. If the filesystem does not support labels, SetLabel returns an error only if the label
// was configured by name.
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
