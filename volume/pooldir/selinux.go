package pooldir

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

const (
	// LabelAuto as Config.Label sets DefaultLabel on filesystems that support SELinux labels, and
	// no label on others.
	LabelAuto = "auto"
	// DefaultLabel permits every container to use a volume. It has no categories; the container
	// runtime sets those of the pod.
	DefaultLabel = "system_u:object_r:container_file_t:s0"
)

func (o *Opener) chooseLabel(d *Dir) (string, error) {
	if o.config.Label != LabelAuto {
		return o.config.Label, nil
	}
	if labelled, err := d.labelled(); err != nil || !labelled {
		return "", err
	}
	return DefaultLabel, nil
}

// labelled reports whether the pool's filesystem supports SELinux labels: then it has the option
// "seclabel" (selinux_sb_show_options in security/selinux/hooks.c). A filesystem that is mounted
// with context= has not, and supports none. The caller has located the directory.
func (d *Dir) labelled() (bool, error) {
	home, ok, err := mount.Find(d.MountID())
	return ok && home.SuperOption("seclabel"), err
}

// Labels returns the SELinux labels of the volumes' directories, by their names, also of a Dir that
// OpenToRead opened. It returns nil if the filesystem supports no labels, and leaves out a volume
// whose directory is missing or whose label cannot be read.
func (d *Dir) Labels(volumes []string) (map[string]string, error) {
	if err := d.locate(); err != nil {
		return nil, err
	}
	if is, err := d.labelled(); err != nil || !is {
		return nil, err
	}
	labels := map[string]string{}
	value := make([]byte, 4096) // longer than any label: a page, as in security/selinux/selinuxfs.c
	for _, name := range volumes {
		n, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", d.Base, name), "security.selinux", value)
		if err == nil {
			labels[name] = strings.TrimRight(string(value[:n]), "\x00")
		}
	}
	return labels, nil
}

// SetLabel sets the label of the directory that fd has open. It does nothing if no label is
// configured. If the filesystem does not support labels, SetLabel returns an error only if the
// label was configured by name.
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
