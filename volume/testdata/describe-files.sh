#!/bin/bash
# Prints what must be the same after a restore of the files in the directory DIR.
set -euo pipefail
cd "$DIR"
find . -mindepth 1 -printf '%P %y %m %U:%G %n %l\n' | sort
find . -type f -size -1024k | sort | xargs stat -c '%n %y'
getfacl -RPn . | grep -v '^# file: \.$'
getfattr -Rd -m user . | sort
sha256sum db/table
dd if=disk.img bs=64K skip=2048 count=16 status=none | sha256sum
stat -c '%n %s' disk.img
