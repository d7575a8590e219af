package diskid

import (
	"encoding/hex"
	"regexp"
	"strings"
)

// slots are IDs that a machine gives to a slot or to a name, so that another disk in it has the
// same one; most are of virtual machines whose disks were given no serial number. Each is compared
// with the serial number in an ID, or with the whole ID.
var slots = []struct {
	id  *regexp.Regexp
	who string
}{
	{regexp.MustCompile(`(^|[_.:])drive-[^_]*$`), "QEMU, SCSI: the name of the drive"},
	{regexp.MustCompile(`(^|[_.:])QM[0-9]{5,}$`), "QEMU, IDE and SATA: a counter of ports (hw/ide/core.c)"},
	{regexp.MustCompile(`^eui\.5254000000`), "QEMU, NVMe: a counter of namespaces (hw/nvme/ns.c)"},
	{regexp.MustCompile(`(?i)vmware_nvme_[0-9]+$`), "VMware, NVMe: the number of the controller"},
	{regexp.MustCompile(`(^|[_.:])VB1234-56789$`), "VirtualBox, NVMe: the same for all"},
	{regexp.MustCompile(`(^|[_.:])nvme_card(-pd)?$`), "Google, NVMe: the same for all"},
	{regexp.MustCompile(`(^|[_.:])(local-ssd|local-nvme-ssd|persistent-disk)-[0-9]+$`), "Google: the number of the disk"},
	{regexp.MustCompile(`^(serial:|t10\..*_)?0{4,}[0-9]{1,4}$`), "VMware, SATA, and others: a counter"},
	{regexp.MustCompile(`(^|[_.:])0+$`), "no number"},
	{regexp.MustCompile(`^dm:CRYPT-(PLAIN|TCRYPT|LOOPAES)-`), "dm-crypt without a header: the name of the mapping"},
	{regexp.MustCompile(`^dm:CRYPT-TEMP-`), "dm-crypt: one of the moment"},
}

// namesSlot reports whether an ID is one of slots.
func namesSlot(disk string) bool {
	for _, s := range slots {
		if s.id.MatchString(disk) || s.id.MatchString(serialOfNVMe(disk)) {
			return true
		}
	}
	return false
}

// serialOfNVMe returns the serial number in the ID of an NVMe disk without an identifier of its own:
// nvme.VENDOR-SERIAL-MODEL-NAMESPACE, where serial number and model are in hexadecimal. It returns
// "" for other IDs.
func serialOfNVMe(disk string) string {
	fields := strings.Split(disk, "-")
	if !strings.HasPrefix(disk, "nvme.") || len(fields) < 4 {
		return ""
	}
	serial, err := hex.DecodeString(fields[1])
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(serial)), "_")
}
