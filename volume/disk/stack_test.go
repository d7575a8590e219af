package disk

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

// fake is a machine whose devices are files like those of the kernel. Each is opened at once, and
// says what it is.
type fake struct {
	*Machine
	*testing.T
	names   map[string]Number
	backing map[string]string // of loop devices; "" is a file
}

// fakeMachine returns a machine without devices.
func fakeMachine(t *testing.T) *fake {
	t.Helper()
	f := &fake{T: t, names: map[string]Number{}, backing: map[string]string{}}
	f.Machine = NewMachine(t.TempDir(), f)
	return f
}

// add adds a device with attributes: a disk, or the partition of one if it has that attribute and
// the name is DISK/PARTITION.
func (f *fake) add(name string, attributes map[string]string) {
	f.Helper()
	base := filepath.Base(name)
	n := Number{8, uint32(len(f.names))}
	f.names[base] = n
	dir := filepath.Join(f.root, "/sys/devices", name)
	all := maps.Clone(attributes)
	if all == nil {
		all = map[string]string{}
	}
	all["dev"] = n.String()
	if all["size"] == "" {
		all["size"] = "2048"
	}
	writeAttributes(f.T, dir, all)
	f.link("/sys/dev/block/"+n.String(), dir)
	if !strings.Contains(name, "/") {
		f.link("/sys/block/"+base, dir)
	}
}

func (f *fake) link(at, to string) {
	f.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(f.root+at), 0o700), os.Symlink(to, f.root+at)); err != nil {
		f.Fatal(err)
	}
}

// over adds a device of device mapper with that UUID over others.
func (f *fake) over(name, uuid string, below ...string) {
	f.Helper()
	f.add(name, map[string]string{"dm/uuid": uuid, "dm/name": name})
	for _, b := range below {
		f.link("/sys/dev/block/"+f.names[name].String()+"/slaves/"+b, f.root+"/sys/dev/block/"+f.names[b].String())
		f.link("/sys/dev/block/"+f.names[b].String()+"/holders/"+name, f.root+"/sys/dev/block/"+f.names[name].String())
	}
}

// loop adds a loop device over a device, or over a file if that is "".
func (f *fake) loop(name, backing, size string) {
	f.Helper()
	f.add(name, map[string]string{"loop/backing_file": "any", "size": size})
	f.backing[name] = backing
}

func (f *fake) Resolve(path string) (Number, error) { return f.names[filepath.Base(path)], nil }

func (f *fake) Open(path string, _ int) (File, error) {
	backing, loop := f.backing[filepath.Base(path)]
	return fakeFile{f: f, backing: backing, loop: loop}, nil
}

// fakeFile is an open loop device.
type fakeFile struct {
	File
	f       *fake
	backing string
	loop    bool
}

func (f fakeFile) Backing() (Number, error) {
	switch f.backing {
	case "broken":
		return Number{}, unix.EIO
	case "":
		return Number{}, ErrNotADevice
	}
	return f.f.names[f.backing], nil
}

func (fakeFile) Close() {}

// name returns the name of a device.
func (f *fake) name(n Number) string {
	for name, number := range f.names {
		if number == n {
			return name
		}
	}
	return n.String()
}

// lun is the WWN of a LUN, as the kernel and as dm-multipath show it.
const lun, mpath = "naa.600a098038303053453f463045727a2e", "mpath-3600a098038303053453f463045727a2e"

// The Stack of each device of a machine: what lies beside it is not in it.
func TestStack(t *testing.T) {
	f := fakeMachine(t)
	wwid := map[string]string{"device/wwid": lun}
	part := func(n string) map[string]string { return map[string]string{"partition": n} }
	f.add("sda", wwid)
	f.add("sdb", wwid)
	f.over("dm-0", mpath, "sda", "sdb")
	f.over("dm-1", "part1-"+mpath, "dm-0")
	f.over("dm-2", "part2-"+mpath, "dm-0")
	f.over("dm-3", "LVM-a", "dm-1")
	f.over("dm-4", "LVM-b", "dm-1")
	f.add("sdc", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4"})
	f.add("sdc/sdc1", part("1"))
	f.add("sdc/sdc2", part("2"))
	f.add("sdd", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4"})
	f.add("sdd/sdd1", part("1"))
	f.loop("loop0", "sdc", "2048")
	f.loop("loop1", "sdc1", "2048")
	f.loop("loop2", "sdc", "1024")
	f.loop("loop3", "", "2048")
	f.add("vda", map[string]string{"serial": "same"})
	f.add("vdb", map[string]string{"serial": "same"})
	f.over("dm-5", "mpath-1QEMU_x", "vda", "vdb")
	f.add("nvme0n1", map[string]string{"wwid": "eui.0025385a01b2c301"})
	f.over("md0", "", "nvme0n1", "loop3")
	for name, want := range map[string]string{
		"sda":     "dm-0 sdb | | dm-1 dm-2 dm-3 dm-4",
		"dm-0":    "sda sdb | | dm-1 dm-2 dm-3 dm-4",
		"dm-1":    "| dm-0 sda sdb | dm-3 dm-4",
		"dm-3":    "| dm-0 dm-1 sda sdb |",
		"sdc":     "sdd | | loop0 loop1 loop2 sdc1 sdc2 sdd1",
		"sdc1":    "sdd1 | loop0 sdc sdd | loop1",
		"sdc2":    "| loop0 sdc sdd |",
		"loop0":   "| sdc sdd |",
		"loop1":   "| loop0 sdc sdc1 sdd sdd1 |",
		"loop2":   "| loop0 sdc sdd |",
		"loop3":   "| | md0",
		"vda":     "dm-5 vdb | |",
		"dm-5":    "vda vdb | |",
		"nvme0n1": "| | md0",
		"md0":     "| loop3 nvme0n1 |",
	} {
		s := f.view().stack(f.names[name])
		var got []string
		for _, layers := range [][]Layer{s.Paths, s.Below, s.Above} {
			var names []string
			for _, l := range layers {
				names = append(names, f.name(l.Number))
			}
			slices.Sort(names)
			got = append(got, strings.Join(names, " "))
		}
		if text := strings.Join(got, " | "); strings.Join(strings.Fields(text), " ") != want || s.Err != nil {
			t.Errorf("%s: %q (%v), want %q", name, text, s.Err, want)
		}
	}
	for name, want := range map[string][]string{
		"sda": {lun}, "dm-3": {lun}, "dm-0": {lun}, "sdc1": {"naa.5000c500a1b2c3d4"}, "dm-5": nil, "loop3": nil,
		"md0": {"eui.0025385a01b2c301"},
	} {
		d := Device{Number: f.names[name], Stack: f.view().stack(f.names[name])}
		d.Identity = f.view().identity(d.Number).String()
		if got := d.Shared(); !slices.Equal(got, want) {
			t.Errorf("%s is known on other nodes as %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{"sda": true, "dm-0": false, "dm-1": false, "dm-3": false, "sdc": false, "sdc1": false, "vda": true} {
		d := Device{Number: f.names[name]}
		if f.view().identify(&d); d.Joined != want {
			t.Errorf("dm-multipath joins %s with other paths: %v", name, d.Joined)
		}
	}
	f.add("sda/sda1", part("1"))
	d := Device{Number: f.names["sda1"]}
	if f.view().identify(&d); !d.Joined || !d.Stack.Has(f.names["dm-1"]) || d.Stack.Has(f.names["dm-2"]) {
		t.Errorf("a partition of a path: %+v", d)
	}
	f.loop("loop4", "broken", "2048")
	if s := f.view().stack(f.names["sdc"]); s.Err == nil {
		t.Error("a loop device cannot be read, and the Stack of a disk is complete")
	}
}

// Two devices with one WWN are one disk by two paths; two with one serial number may be two disks.
func TestTwins(t *testing.T) {
	f := fakeMachine(t)
	part := map[string]string{"partition": "2"}
	for _, one := range []struct {
		name       string
		attributes map[string]string
	}{
		{"sda", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4"}}, {"sda/sda2", part},
		{"sdb", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4"}}, {"sdb/sdb2", part},
		{"sdc", map[string]string{"device/wwid": "naa.5000c500ffffffff"}},
		{"vda", map[string]string{"serial": "1234"}},
		{"vdb", map[string]string{"serial": "1234"}},
		{"nvme0n1", map[string]string{"wwid": "nvme.8086-1234"}}, {"nvme0n1/nvme0n1p2", part},
		{"nvme1n1", map[string]string{"wwid": "nvme.8086-1234"}}, {"nvme1n1/nvme1n1p2", part},
		{"sdd", map[string]string{"device/wwid": lun}},
		{"sde", map[string]string{"device/wwid": "naa.5000c500a1b2c3d5"}},
		{"sdf", map[string]string{"device/wwid": "naa.5000c500a1b2c3d5", "size": "4096"}},
	} {
		f.add(one.name, one.attributes)
	}
	f.over("dm-0", mpath, "sdd")
	f.over("dm-1", "part1-"+mpath, "dm-0")
	f.add("sdd/sdd1", map[string]string{"partition": "1", "size": "1024"})
	for name, want := range map[string]string{
		"sda": "sdb naa.5000c500a1b2c3d4", "sdb2": "sda2 naa.5000c500a1b2c3d4-part2", "sdc": " naa.5000c500ffffffff",
		"vda": "vdb ", "nvme0n1p2": "nvme1n1p2 ", "sdd": "dm-0 " + lun, "dm-0": "sdd " + lun,
		"dm-1": "sdd1 " + lun + "-part1", "sdd1": "dm-1 " + lun + "-part1", "sde": "sdf ", "sdf": "sde ", // clones
	} {
		d := Device{Number: f.names[name]}
		f.view().identify(&d)
		var twins []string
		for _, n := range d.Twins {
			twins = append(twins, f.name(n))
		}
		if got := fmt.Sprint(strings.Join(twins, ","), " ", d.Identity); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What a PV recorded is compared with all that a device is: another partition is another one.
func TestShares(t *testing.T) {
	const disk = "naa.5000c500a1b2c3d4"
	whole, part := Device{Identity: disk}, Device{Identity: disk + "-part1"}
	volume := Device{Identity: "dm:LVM-a", Stack: Stack{Below: []Layer{{Identity: disk + "-part1"}, {Identity: disk}}}}
	below := Device{Identity: disk, Stack: Stack{Above: []Layer{{Identity: "dm:LVM-a"}, {Identity: ""}}}}
	for _, row := range []struct {
		d    Device
		id   string
		want bool
	}{
		{whole, disk, true}, {whole, disk + "-part1", true}, {part, disk, true}, {part, disk + "-part1", true},
		{part, disk + "-part2", false}, {whole, "naa.5000c500ffffffff", false}, {whole, "", false}, {Device{}, "", false},
		{volume, disk, true}, {volume, disk + "-part1", true}, {volume, disk + "-part2", false}, {volume, "dm:LVM-a", true},
		{below, "dm:LVM-a", true}, {below, "dm:LVM-a-part1", true}, {below, "dm:LVM-b", false},
		{Device{Identity: lun}, "dm:" + mpath, true}, {Device{Identity: lun}, "dm:part1-" + mpath, true},
	} {
		if got := row.d.Shares(diskid.Parse(row.id)); got != row.want {
			t.Errorf("%q %+v and the PV of %q: %v", row.d.Identity, row.d.Stack, row.id, got)
		}
	}
}
