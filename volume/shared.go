package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// sharedName is the file with what the files of volumes share, by volume; see space.Shared. Without
// it a restart would offer what the counters count more than once, until the next walk ended.
const sharedName = "shared.json"

// sharesCounted reports whether a counter counts blocks that files share for each of them: on btrfs
// they count for the volume that wrote them, and files of ext4 share none.
func (c *call) sharesCounted() bool { return c.quotas.Support.Method == quota.MethodXFS }

// readShared reads what a former process found shared. A file that cannot be read is none: it is
// noted, and written again by the next walk.
func (p *Pool) readShared(c *call) {
	var all map[string]space.Shared
	data, err := file.Read(c.Private, sharedName)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.note(fmt.Sprintf("%s cannot be read, so volumes may count more than they use until they are walked: %v",
			sharedName, err))
	}
	p.ledger.SetShared(all)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sharedOnDisk = all
}

// writeShared writes what was found shared, unless the file has it.
func (p *Pool) writeShared(c *call) error {
	release, err := p.sharing.Take(c.Call)
	if err != nil {
		return err
	}
	defer release()
	all := p.ledger.Shared()
	p.mu.Lock()
	before := p.sharedOnDisk
	p.mu.Unlock()
	same := func(a, b space.Shared) bool { return a.Bytes == b.Bytes && a.Created.Equal(b.Created) }
	if maps.EqualFunc(all, before, same) {
		return nil
	}
	data, err := file.JSON(all)
	if err == nil {
		err = file.Replace(c.Private, []file.Content{{Name: sharedName, Data: data}}, p.step)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", sharedName, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sharedOnDisk = all
	return nil
}
