//go:build linux

package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/volumequota"
)

// billedEntries is how many files and directories of all volumes of a pool billed visits: a second of work at most.
const billedEntries = 50_000

var errEnough = errors.New("as many files as one report visits")

// billed returns a warning of the volumes for which btrfs counts more than their files have by an eighth of their quota; "" if
// there are none. A simple quota counts an extent as long as one of its blocks is in use, so an image or a database that is
// overwritten in place fills its quota with blocks that no file has any more. Volumes with too many files are left out.
func billed(c *bounded.Call, d *pooldir.Dir, method quota.Method, volumes []Volume) string {
	if method != quota.MethodBtrfs {
		return ""
	}
	visited := 0
	pace := c.Paced(func(context.Context) error {
		if visited++; visited > billedEntries {
			return errEnough
		}
		return nil
	})
	var more []string
	for _, v := range volumes {
		if v.Quota == 0 || v.Missing || v.State == record.Deleting || v.Used < v.Quota/8 {
			continue
		}
		files, err := volumequota.Files(context.Background(), d.Base, v.Name, pace)
		if errors.Is(err, errEnough) {
			break
		}
		if err == nil && v.Used-files > v.Quota/8 {
			more = append(more, fmt.Sprintf("%s (%d MiB for %d MiB of files, quota %d MiB)", v.Name, v.Used>>20,
				files>>20, v.Quota>>20))
		}
	}
	if len(more) == 0 {
		return ""
	}
	return fmt.Sprintf("btrfs counts more for volumes than their files have: %s; it counts a block that was overwritten until all "+
		"of its extent is, and a removed file until it is closed: grow the volumes, or copy their images to new files, and "+
		"see docs/quotas.md", listed(more))
}

// listed joins the first three texts and the number of the others.
func listed(texts []string) string {
	const named = 3
	text := strings.Join(texts[:min(named, len(texts))], ", ")
	if more := len(texts) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
