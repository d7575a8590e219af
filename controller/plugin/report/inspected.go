package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// inspectFields are the fields of what agents print of pools and of disks.
var inspectFields = treeOf("version", "pool.**", "space.**", "volumes.name", "volumes.state", "volumes.bytes",
	"volumes.owner.**", "volumes.pv", "volumes.reclaimPolicy", "volumes.missing", "volumes.adopted", "volumes.ephemeral",
	"volumes.created", "volumes.migration.**", "volumes.orphan.**", "volumes.quota", "volumes.used", "volumes.label",
	"trash.id", "trash.name", "trash.bytes", "trash.since", "trash.stuck", "damaged", "warnings", "unrecorded.name",
	"device", "paths", "id", "bytes", "state", "why", "pv", "retry", "wiped", "verified", "wipeBytes", "confirm")

// volumeName matches directories that provisioners name. Others were named by people.
var volumeName = regexp.MustCompile(`pvc-[0-9a-f]{8}-[0-9a-f-]{27}`)

// inspected returns what an agent printed with the fields that are shown, and why not all.
func (b *bundle) inspected(out []byte) (data []byte, why string) {
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var one any
		switch err := decoder.Decode(&one); {
		case errors.Is(err, io.EOF):
			return data, ""
		case err != nil:
			return data, fmt.Sprintf("the output is no JSON, and is left out: %v", err)
		}
		kept, dropped := inspectFields.keep(one)
		if report, is := kept.(map[string]any); is {
			cutNames(report)
		}
		kept = scrubbedValue(kept, &dropped)
		b.dropped += dropped
		text, err := view.JSON(kept)
		if err != nil {
			return data, err.Error()
		}
		data = append(data, text...)
	}
}

// cutNames cuts names that tenants and administrators gave: of directories that no record has, and of
// files in the trash, which are in the error of their removal.
func cutNames(report map[string]any) {
	all, _ := report["unrecorded"].([]any)
	for _, one := range all {
		u, _ := one.(map[string]any)
		if name, _ := u["name"].(string); !volumeName.MatchString(name) {
			u["name"] = cut
		}
	}
	all, _ = report["trash"].([]any)
	for _, one := range all {
		t, _ := one.(map[string]any)
		if stuck, has := t["stuck"].(string); has {
			reason := strings.LastIndex(stuck, ": ") // that of the kernel, after the file
			if t["stuck"] = cut; reason >= 0 {
				t["stuck"] = cut + stuck[reason:]
			}
		}
	}
}
