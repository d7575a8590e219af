package volume

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
func (p *Pool) chooseLabel(h *handle) (string, error) {
	if p.config.Label != LabelAuto {
		return p.config.Label, nil
	}
	all, err := mount.Self()
	if err != nil {
		return "", err
	}
	if home, ok := mount.ByID(all, int(h.at.mount)); ok && home.SuperOption("seclabel") {
		return DefaultLabel, nil
	}
	return "", nil
}

// setLabel labels the directory that fd has open. It does nothing where no
// label is wanted. A filesystem that takes none is an error only where the
// label was asked for by its name.
func (p *Pool) setLabel(h *handle, fd int) error {
	if h.label == "" {
		return nil
	}
	p.step("create.label")
	err := unix.Fsetxattr(fd, "security.selinux", append([]byte(h.label), 0), 0)
	if err == nil || err == unix.ENOTSUP && p.config.Label == LabelAuto {
		return nil
	}
	return fmt.Errorf("set SELinux label %q: %w", h.label, err)
}
