package suite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/pages"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// diskReplaced has a pool get an empty disk under the same Node, and follows docs/node-maintenance.md: its list names the pool, and
// the annotation gives the volume up. The other pool's volume stays.
func (g *goneScene) diskReplaced() {
	list, annotate := g.replaceCommands()
	g.agent.Restart()
	g.agent.AwaitReady()
	path, csi := g.filled("disk", "keep")
	g.agent.Stop()
	lost := g.csiPool + "-replaced"
	if err := errors.Join(os.Rename(g.csiPool, lost), os.Mkdir(g.csiPool, 0o755)); err != nil {
		g.Fatal(err)
	}
	g.agent.Restart()

	at := filepath.Join(g.TempDir(), "list")
	g.Shell(list.Fill(map[string]string{"NODE": g.node.Name}) + " >" + at)
	text, err := os.ReadFile(at)
	if err != nil {
		g.Fatal(err)
	}
	pool := ""
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == csi.Name {
			pool = fields[1]
		}
	}
	if pool == "" {
		g.Fatalf("the list does not have the claim %s:\n%s", csi.Name, text)
	}
	g.Bound(csi)
	g.Shell(annotate.Fill(map[string]string{"NODE": g.node.Name, "POOL": pool}))
	g.ClaimGone(csi)
	g.Gone(harness.PVName(csi))
	g.agent.AwaitReady()
	for _, dir := range []string{g.directory(path), filepath.Join(lost, harness.PVName(csi))} {
		if data, err := os.ReadFile(filepath.Join(dir, "data")); string(data) != "precious" {
			g.Errorf("data of %s: %q, %v", dir, data, err)
		}
	}
	pathAgain, csiAgain := g.filled("disk-again", "keep")
	for _, claim := range []*corev1.PersistentVolumeClaim{path, pathAgain, csiAgain} {
		g.Bound(claim)
		g.Delete(claim)
		g.Gone(harness.PVName(claim))
	}
	g.agent.Stop()
}

// replaceCommands returns the commands of docs/node-maintenance.md that list the volumes of a disk and give a pool up.
func (g *goneScene) replaceCommands() (list, annotate pages.Command) {
	g.Helper()
	text, err := os.ReadFile("../../docs/node-maintenance.md")
	if err != nil {
		g.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Replace a disk, or a machine\n")
	commands, err := pages.Commands(section)
	if err != nil || len(commands) < 2 || !strings.HasPrefix(commands[0].Text, "kubectl get pv -l") ||
		!strings.HasPrefix(commands[1].Text, "kubectl annotate --overwrite node") {
		g.Fatalf("docs/node-maintenance.md has other commands: %v, %v", commands, err)
	}
	return commands[0], commands[1]
}
