package disk

// magics are signatures at fixed offsets. The order matters where one device can have several: what
// is above the others in the stack comes last.
var magics = []struct {
	offset int64
	magic  string
	kind   Kind
	name   string
}{
	{0, "LUKS\xba\xbe", Member, "LUKS container"},
	{0x4000, "SKUL\xba\xbe", Member, "LUKS container"},
	{3, "-FVE-FS-", Member, "BitLocker volume"},
	{0, "bluestore block device", Member, "Ceph OSD"},
	{gibibyte, "bluestore block device", Member, "Ceph OSD"},
	{4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", Member, "bcache device"},
	{4096 + 24, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", Filesystem, "bcachefs"},
	{1080, "\x53\xef", Filesystem, "ext2, ext3 or ext4"},
	{0, "XFSB", Filesystem, "xfs"},
	{0x10040, "_BHRfS_M", Filesystem, "btrfs"},
	{1024, "\x10\x20\xf5\xf2", Filesystem, "f2fs"},
	{1024, "\xe2\xe1\xf5\xe0", Filesystem, "erofs"},
	{0, "hsqs", Filesystem, "squashfs"},
	{32769, "CD001", Filesystem, "iso9660"},
	{32768, "JFS1", Filesystem, "jfs"},
	{65536 + 52, "ReIsEr", Filesystem, "reiserfs"},
	{65536, "\x01\x16\x19\x70", Filesystem, "gfs2"},
	{8192, "OCFSV2", Filesystem, "ocfs2"},
	{1024 + 6, "\x34\x34", Filesystem, "nilfs2"},
	{32, "NXSB", Filesystem, "apfs"},
	{1024, "H+", Filesystem, "hfs+"},
	{1024, "HX", Filesystem, "hfs+"},
	{3, "NTFS    ", Filesystem, "ntfs"},
	{3, "EXFAT   ", Filesystem, "exfat"},
	{54, "FAT1", Filesystem, "vfat"},
	{82, "FAT32   ", Filesystem, "vfat"},
	{4096 - 10, "SWAPSPACE2", Filesystem, "swap"},
	{4096 - 10, "SWAP-SPACE", Filesystem, "swap"},
	{65536 - 10, "SWAPSPACE2", Filesystem, "swap"}, // pages of 64 KiB
}

// known finds one of magics.
func (w window) known() Signature {
	for _, m := range magics {
		if w.has(m.offset, m.magic) {
			return Signature{m.kind, m.name, m.offset}
		}
	}
	return Signature{}
}
