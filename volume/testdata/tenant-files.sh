#!/bin/bash
# Makes the files of a tenant that a backup may lose in the directory SOURCE: a disk image of IMAGE_SIZE (10G) with 1 MiB of data,
# ACLs, attributes, links, owners.
set -eu
cd "$SOURCE"
truncate -s "${IMAGE_SIZE:-10G}" disk.img
dd if=/dev/urandom of=disk.img bs=64K count=16 seek=2048 conv=notrunc status=none
mkdir -p db/pg_wal
echo row >db/table
ln db/table db/hard
ln -s table db/soft
ln -s /etc/passwd db/outside
mkfifo db/fifo
chown 107:107 disk.img
chmod 2770 db
chown 999:998 db db/table
chmod 640 db/table
setfacl -m u:1234:rwx,d:u:1234:rx db
setfacl -m u:1234:r db/table
setfattr -n user.label -v blue db/table
touch -d '2020-02-02 02:02:02.123456789 UTC' db/table
sync -f .
