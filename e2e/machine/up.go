package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// packages are the Debian packages of the programs that Up calls.
var packages = map[string]string{
	emulatorName: "qemu-system-x86", "mmdebstrap": "mmdebstrap", "ssh": "openssh-client", "ssh-keygen": "openssh-client",
	"mkfs.xfs": "xfsprogs", "mkfs.ext4": "e2fsprogs", "mkfs.btrfs": "btrfs-progs",
}

func (m *Machine) up(ctx context.Context, o Options) error {
	system, err := image(ctx, m.progress)
	if err != nil {
		return err
	}
	m.plane, err = cluster.StartControlPlane(ctx, cluster.Options{
		Dir: m.file("control-plane"), Version: o.Version, Kubelets: true, Detach: o.Detach, Log: o.Log})
	if err != nil {
		return err
	}
	ports, err := cluster.FreePorts(1, o.Detach)
	if err != nil {
		return err
	}
	m.settings.SSHPort = ports[0]
	data, err := json.Marshal(m.settings)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.file("machine.json"), data, 0o600); err != nil {
		return err
	}
	m.progress.Say("writing the disks")
	files, err := m.files(ctx)
	if err != nil {
		return err
	}
	if err := m.writeDisks(ctx, system, files); err != nil {
		return err
	}
	began := time.Now()
	m.progress.Say("booting")
	if err := m.power(); err != nil {
		return err
	}
	if err := m.AwaitBoot(ctx, ""); err != nil {
		return err
	}
	m.progress.Say("booted after %s", time.Since(began).Round(time.Second))
	return m.loadImages(ctx)
}

// files are the files of this machine: credentials, programs, configuration.
func (m *Machine) files(ctx context.Context) ([]file, error) {
	if err := run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", m.file("key")); err != nil {
		return nil, err
	}
	key, err := os.ReadFile(m.file("key.pub"))
	if err != nil {
		return nil, err
	}
	kubelet, err := os.ReadFile(m.plane.Binaries().Path("kubelet"))
	if err != nil {
		return nil, err
	}
	kubeconfig, err := os.ReadFile(filepath.Join(m.plane.Dir(), nodeName+".kubeconfig"))
	if err != nil {
		return nil, err
	}
	api, err := url.Parse(m.plane.URL())
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(api.Port())
	if err != nil {
		return nil, err
	}
	return append(guestFiles(kubeconfig, port, cluster.PauseImage),
		file{"/root/.ssh/authorized_keys", 0o600, key},
		file{"/usr/local/bin/kubelet", 0o755, kubelet}), nil
}

// loadImages imports the images of every node.
func (m *Machine) loadImages(ctx context.Context) error {
	archives, err := cluster.WriteNodeImages(m.dir, m.plane.Binaries())
	if err != nil {
		return err
	}
	for _, path := range archives {
		archive, err := os.Open(path)
		if err != nil {
			return err
		}
		err = m.load(ctx, archive)
		_ = archive.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func check() error {
	if os.Geteuid() != 0 {
		return errors.New("a machine needs root, which mounts its disk to write files into it")
	}
	var missing []string
	for program, name := range packages {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("programs are missing: run e2e/packages.sh %s", strings.Join(missing, " "))
	}
	return nil
}
