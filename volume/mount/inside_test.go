package mount

import (
	"errors"
	"strings"
	"testing"
)

// A container as containerd makes it, with a hostPath volume of /var/hpvolumes and one of
// /mnt/fast. The host's root disk is 254:0, its disks are 8:x.
const container = `100 90 0:50 / / rw master:7 - overlay overlay rw
101 100 0:51 / /proc rw - proc proc rw
110 100 254:0 /var/hpvolumes /var/hpvolumes rw master:1 - ext4 /dev/vda rw
111 100 8:1 / /mnt/fast rw master:3 - xfs /dev/sda rw
`

// A host with its own root disk.
const host = `27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
40 27 0:21 / /proc rw - proc proc rw
`

func TestOfHost(t *testing.T) {
	for name, row := range map[string]struct {
		mounts    string
		dir       string
		contained bool
		want      string // "" is a mount of the host
	}{
		"a disk below a volume": {container + "120 110 8:17 / /var/hpvolumes/disk rw master:9 - xfs /dev/sdb1 rw\n", "/var/hpvolumes/disk", true, ""},
		"a subvolume":           {container + "120 110 0:60 /@vols /var/hpvolumes/disk rw - btrfs /dev/sdb1 rw\n", "/var/hpvolumes/disk", true, ""},
		"a bind of another":     {container + "120 110 8:17 /vols /var/hpvolumes/disk rw - xfs /dev/sdb1 rw\n", "/var/hpvolumes/disk", true, ""},
		"a bind of the same":    {container + "120 110 254:0 /data/vols /var/hpvolumes/disk rw - ext4 /dev/vda rw\n", "/var/hpvolumes/disk", true, ""},
		"none":                  {container, "/var/hpvolumes/disk", true, "is no mount point"},
		"the volume itself, of a plain directory":  {container, "/var/hpvolumes", true, "volume of the container itself"},
		"the volume itself, of a disk":             {container, "/mnt/fast", true, "volume of the container itself"},
		"a disk over the volume":                   {container + "120 110 8:17 / /var/hpvolumes rw master:9 - xfs /dev/sdb1 rw\n", "/var/hpvolumes", true, "volume of the container itself"},
		"a volume in a volume":                     {container + "120 110 254:0 /var/hpvolumes/disk /var/hpvolumes/disk rw - ext4 /dev/vda rw\n", "/var/hpvolumes/disk", true, "that very directory"},
		"the volume itself, and a shared PID tree": {container, "/mnt/fast", false, "volume of the container itself"},
		"the root":           {container, "/", true, "volume of the container itself"},
		"a disk on the host": {host + "50 27 8:17 / /var/hpvolumes rw shared:9 - xfs /dev/sdb1 rw\n", "/var/hpvolumes", false, ""},
		"one over the other on the host": {host + "50 27 8:17 / /var/hpvolumes rw shared:9 - xfs /dev/sdb1 rw\n" +
			"51 50 8:33 / /var/hpvolumes rw shared:10 - xfs /dev/sdc1 rw\n", "/var/hpvolumes", false, ""},
		"itself on the host":  {host + "50 27 254:0 /var/hpvolumes /var/hpvolumes rw shared:9 - ext4 /dev/vda rw\n", "/var/hpvolumes", false, "that very directory"},
		"no disk on the host": {host, "/var/hpvolumes", false, "is no mount point"},
		"a container without overlay": {strings.ReplaceAll(strings.ReplaceAll(container, "0:50 / /", "254:0 /snapshots/7/fs /"), "overlay overlay", "ext4 /dev/vda"),
			"/mnt/fast", true, "volume of the container itself"},
	} {
		all, err := Parse(strings.NewReader(row.mounts))
		if err != nil {
			t.Fatal(err)
		}
		var top Info // the mount that a path is reached through: the last one made at or above it
		for _, i := range all {
			if _, is := within(row.dir, i.Point); is && len(i.Point) >= len(top.Point) {
				top = i
			}
		}
		err = ofHost(all, top, row.dir, row.contained || inContainer(all))
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case row.want != "" && (!errors.Is(err, ErrNotMounted) || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v, want words %q", name, err, row.want)
		}
	}
}
