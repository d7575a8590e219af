#!/bin/sh
# Makes the machine's system in the directory $1: root.img, an ext4 whose files have SELinux labels,
# and the kernel with its initrd. Needs root and mmdebstrap. Nothing of it is installed here.
set -eu
dir=$1
root=$dir/root
suite=bookworm

mmdebstrap --mode=root --variant=minbase --include="$(tr '\n' , <<EOF
systemd,systemd-sysv,dbus,udev,kmod,linux-image-cloud-amd64,openssh-server
auditd,policycoreutils,selinux-basics,selinux-policy-default,selinux-policy-dev,selinux-policy-src,checkpolicy,m4,make
containerd,runc,containernetworking-plugins,iptables,iproute2,conntrack,ca-certificates,procps
e2fsprogs,xfsprogs,btrfs-progs,quota,mount,util-linux,zstd
mdadm,cryptsetup
EOF
)" --skip=cleanup/reproducible "$suite" "$root"

# The distribution's policy has no module for containers, but its source has.
mkdir "$root/tmp/container"
tar --zstd -xf "$root/usr/src/selinux-policy-src.tar.zst" -C "$root/tmp/container" --strip-components=4 \
    selinux-policy-src/policy/modules/services/container.te \
    selinux-policy-src/policy/modules/services/container.fc
chroot "$root" make -s -C /tmp/container -f /usr/share/selinux/devel/Makefile container.pp
# containerd's domain is the policy's for container engines. The policy was written for others, so the
# domain is permissive; containers and the agent are confined. The images' files get the type that the
# policy's list of paths has for them.
cat >"$root/tmp/container/machine.cil" <<EOF
(typepermissive container_engine_t)
(typetransition container_engine_t container_var_lib_t dir "snapshots" container_ro_file_t)
(typetransition container_engine_t container_var_lib_t dir "sandboxes" container_ro_file_t)
(filecon "/usr/bin/containerd.*" file (system_u object_r container_engine_exec_t ((s0) (s0))))
(filecon "/usr/lib/cni/.*" file (system_u object_r bin_t ((s0) (s0))))
EOF
chroot "$root" semodule -n -s default -i /tmp/container/container.pp -i /tmp/container/machine.cil
rm -r "$root/tmp/container"
sed -i 's/^SELINUX=.*/SELINUX=enforcing/' "$root/etc/selinux/config"

echo machine >"$root/etc/hostname"
echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
printf '[Match]\nName=eth*\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/eth.network"
chroot "$root" systemctl -q enable systemd-networkd
chroot "$root" systemctl -q disable containerd apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer
cp "$root"/boot/vmlinuz-* "$dir/vmlinuz"
cp "$root"/boot/initrd.img-* "$dir/initrd"

truncate -s 4G "$dir/root.img"
mkfs.ext4 -q -F -d "$root" "$dir/root.img"
mount -o loop "$dir/root.img" "$root"
trap 'umount -R "$root"' EXIT
mount -t proc proc "$root/proc"
# Labels of files that do not exist yet come from their directories, or from what creates them.
chroot "$root" setfiles -F /etc/selinux/default/contexts/files/file_contexts /
umount -R "$root"
trap - EXIT
rm -r "$root"
