// Package pages reads the commands of the documentation, so that tests can run them.
//
// A block of a page is a fenced block of the language sh, or an indented one. Its lines that begin
// as commands do are commands. In an indented block the others are output; a fenced one has none. Whoever writes a command on a page has it
// run: by TestPages of package nodes, or by the test or demo that Elsewhere names.
package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// Followed are the pages whose commands TestPages runs, in their order.
var Followed = []string{"README.md", "docs/install.md", "docs/hardening.md", "docs/migration.md", "docs/operations.md", "docs/storage-classes.md",
	"docs/troubleshooting.md"}

// Runbooks are pages of one alert each. TestPages runs the commands of all of them, except of those
// in Elsewhere.
const Runbooks = "docs/runbooks/"

// Elsewhere are the other pages with commands, and why TestPages does not run them.
var Elsewhere = map[string]string{
	"docs/autoscaling.md":   "they name nodes that an autoscaler is about to remove: TestOperator of suite has the objects",
	"docs/backup.md":        "they need an image with GNU tar and restic: TestBackupInPods of nodes follows it",
	"docs/blank-disks.md":   "they wipe disks: make demo-blank-disks",
	"docs/claim-pools.md":   "they delete all claims of a pool: TestPoolTemplate of nodes",
	"docs/copies.md":        "TestClone of nodes follows it: it needs a class that allows copies",
	"docs/databases.md":     "they need databases: TestDiskPostgres of volume has the statements of the first drill, TestNodeGoneEtcd of suite follows the second",
	"docs/distributions.md": "they need Talos Linux, which was not run",
	"docs/filesystems.md":   "they format disks of a node: TestPrepare of machine follows it, TestDiskBytesOfAVolume of volume measures",
	"docs/from-kubevirt.md": "TestReplaceOlder of nodes follows it",
	"docs/from-local-path.md": "TestLocalPath of nodes and make demo-local-path: the form needs another class " +
		"and directory",
	"docs/from-local-pv.md":               "they need a ConfigMap of another program: TestUpgrade of disks has its PVs",
	"docs/gitops.md":                      "they delete the operator's resource and need Flux and Argo CD: TestGitOpsOperator of suite prunes it",
	"docs/helm.md":                        "they need Helm: TestHelm of nodes follows it",
	"docs/kubevirt.md":                    "they need KubeVirt, which was not run: TestGuestIsFull of vm and TestPopulateAsCDI of suite have the drill",
	"docs/limits.md":                      "they measure for an hour: BenchmarkManyVolumes of volume, and make bench FIGURES=own",
	"docs/look.md":                        "they need kind, k3d, minikube or k3s, which were not run: TestLook of docs compares the names",
	"docs/monitoring.md":                  "they need Grafana: TestDashboard of suite",
	"docs/node-gone.md":                   "they delete Nodes: TestNodeGone of nodes",
	"docs/node-maintenance.md":            "they drain a node and move a volume: TestNodeMaintenance of nodes follows it, TestNodeGone of suite follows what it has for a disk",
	"docs/node-reset.md":                  "they prepare the reset of a node: TestInspectPublished of cmd runs inspect --published",
	"docs/openshift.md":                   "they need OpenShift, which was not run",
	"docs/operator.md":                    "make demo-operator, and TestOperator of nodes",
	"docs/performance.md":                 "they measure for hours",
	"docs/plugin.md":                      "they need users and groups: TestPlugin and TestPluginDoctor of nodes",
	"docs/quotas.md":                      "they copy a disk image: TestDiskOverwrittenImage of volume",
	"docs/raw-disks.md":                   "they wipe disks: make demo-disks, and TestDisks of nodes",
	"docs/recover.md":                     "they need a cluster that lost its objects: TestRecover of nodes and make demo-recover",
	"docs/reference/operator.md":          "TestOperator of nodes: it reads the conditions",
	"docs/release.md":                     "they make a release: TestTwoReleases of release",
	"docs/sidecars.md":                    "they need the image of a sidecar: TestCSI of nodes switches so, either way",
	"docs/single-node.md":                 "TestSingleNode of nodes follows its first block: the cluster of TestPages has two nodes",
	"docs/runbooks/HPPDiskError.md":       disksElsewhere,
	"docs/runbooks/HPPDiskGone.md":        disksElsewhere,
	"docs/runbooks/HPPDiskUnclear.md":     disksElsewhere,
	"docs/runbooks/HPPDiskWipeStalled.md": disksElsewhere,
	"docs/runbooks/HPPNodeGone.md":        "they need the operator and a Node that is gone: TestNodeGone of nodes",
	"docs/runbooks/HPPNotReady.md":        "they need the operator: TestOperator of nodes",
	"docs/runbooks/HPPOperatorDown.md":    "they need the operator: TestOperator of nodes",
	"docs/same-names.md":                  "they need the pods of both projects: TestSameNames of docs compares their marks",
	"docs/tenancy.md":                     "they make a policy for all namespaces: TestTenancy of suite has it on a control plane of its own",
	"docs/undelete.md":                    "they delete claims and bring them back: TestUndelete of suite",
	"docs/which-disk.md":                  "they need disks that are unclear: TestDisks of nodes",
}

// disksElsewhere is why the pages of the alerts of raw disks are not followed.
const disksElsewhere = "they need raw disks: TestDisks of nodes"

// Command is a command of a page.
type Command struct {
	Line int // on the page, from 1
	Text string
}

// programs are the first words of commands. In a block of the language sh each command begins with one of them, an assignment
// or a comment; in an indented block every other line is output.
var programs = strings.Fields(`
	kubectl helm oc kustomize flux argocd velero kind k3d minikube k3s ctr crictl docker podman
	make go git set for while if until cat cp mv rm ls cd mkdir sed diff jq curl sudo echo printf tee sh timeout test
	dd df du sync stat truncate fallocate tar restic fio sha256sum find cmp
	mount umount losetup findmnt lsblk blkid wipefs udevadm fsfreeze dmsetup mdadm cryptsetup systemctl journalctl
	btrfs tune2fs xfs_quota xfs_growfs repquota chattr lsattr chown chmod setfacl getfacl setfattr getfattr
	qemu-img qemu-system-x86_64 virtctl
	psql postgres initdb pg_ctl pg_ctlcluster pg_createcluster pg_basebackup pg_dump etcd etcdctl
	cosign oras apt-get talosctl ./hostpath-provisioner`)

// begins matches the first line of a command.
var begins = regexp.MustCompile(`^((` + strings.ReplaceAll(strings.Join(programs, "|"), ".", `\.`) + `|mkfs(\.[a-z0-9]+)?)(\s|$)|[A-Za-z_]+=)`)

// heredoc matches a command whose input is the lines up to a word.
var heredoc = regexp.MustCompile(`<<-?'?([A-Z]+)'?`)

var assignment = regexp.MustCompile(`^[A-Za-z]+=\S`)

// Sets reports whether the command sets a variable that those after it use.
func (c Command) Sets() bool { return assignment.MatchString(c.Text) }

// Commands returns the commands of a page. The error names a command that has no end, and a line of a block of the language sh
// that begins as no command does.
func Commands(text string) (all []Command, err error) {
	fence, open, indent := "", false, 0
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if after, is := strings.CutPrefix(trimmed, "```"); is && !open {
			if fence != "" {
				fence = ""
			} else if fence = after; fence == "" {
				fence = "text"
			}
			continue
		}
		indented := fence == "" && strings.HasPrefix(line, "    ")
		switch {
		case open:
			last := &all[len(all)-1]
			if heredoc.MatchString(last.Text) {
				trimmed = line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):]
			}
			last.Text += "\n" + trimmed
			open = unfinished(last.Text)
		case (fence == "sh" || indented) && begins.MatchString(trimmed):
			indent = len(line) - len(strings.TrimLeft(line, " "))
			all = append(all, Command{Line: i + 1, Text: trimmed})
			open = unfinished(trimmed)
		case fence == "sh" && trimmed != "" && !strings.HasPrefix(trimmed, "#"):
			return nil, fmt.Errorf("line %d: %q begins as no command does: add its first word to programs, or move the output to "+
				"a block of another language", i+1, trimmed)
		}
	}
	if open {
		return nil, fmt.Errorf("line %d: the command has no end", all[len(all)-1].Line)
	}
	return all, nil
}

// unfinished reports whether a command goes on in the next line.
func unfinished(text string) bool {
	if m := heredoc.FindStringSubmatch(text); m != nil {
		return !strings.HasSuffix(text, "\n"+m[1])
	}
	if before, _, commented := strings.Cut(text, " #"); commented && strings.Count(before, "'")%2 == 0 {
		text = before // a comment may have an apostrophe
	}
	return strings.HasSuffix(text, `\`) || strings.HasSuffix(text, "|") || strings.HasSuffix(text, "&&") || strings.Count(text, "'")%2 == 1
}

// word matches what may be a placeholder.
var word = regexp.MustCompile(`[A-Za-z]+(\.yaml)?`)

// Fill replaces the placeholders of a command, such as PV, by their values. It leaves variables of the shell and the titles of
// columns alone.
func (c Command) Fill(values map[string]string) string {
	var out strings.Builder
	end := 0
	for _, at := range word.FindAllStringIndex(c.Text, -1) {
		value, is := values[c.Text[at[0]:at[1]]]
		before, after := c.Text[:at[0]], c.Text[at[1]:]
		if !is || strings.HasSuffix(before, "$") || strings.HasSuffix(before, "{") || strings.HasPrefix(after, "=") ||
			strings.HasPrefix(after, ":.") ||
			strings.HasPrefix(after, "_") || strings.HasSuffix(before, "_") || strings.HasSuffix(before, "-") ||
			strings.HasSuffix(before, ".") {
			continue
		}
		out.WriteString(c.Text[end:at[0]] + value)
		end = at[1]
	}
	return out.String() + c.Text[end:]
}
