package nodes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The image of the older chart, with the programs of its commit.
const olderRepository, olderTag = "registry.example.com/hpp-e2e/older", "v8"

// Under a pod that writes, the chart of this tree replaces an older one, is rolled back, replaces it
// again, and stays while the pod needs it. After the pod it goes, and the claim keeps its PV and its
// data. No other test runs meanwhile.
func TestHelmUpgrades(t *testing.T) {
	h := &helmed{}
	t.Cleanup(func() { // after the scene's own, which needs agents
		_, _ = h.helm("uninstall", "hostpath-provisioner", "--no-hooks") // if the test ended before that
		csiAlone.deploy(t)
		undeployCSI(t)
		redeploy(t)
	})
	h.Scene = newScene(t)
	older := olderTree(t)
	loadChartImage(t)
	takeAgentAway(h.Scene)

	h.must("install", "hostpath-provisioner", filepath.Join(older, "manifests", "chart"), "--wait", "--timeout=5m",
		"--set=image.repository="+olderRepository+",image.tag="+olderTag)
	h.installed()
	set := h.uid("daemonset", csiSet)
	claim := csiClaim(h.Scene)
	p := pod{claim: claim.Name, hostname: one.Hostname, script: ticking}.run(h.Scene)
	volume := h.Bound(claim).Name
	same := func(by, image string) {
		t.Helper()
		if now := h.uid("daemonset", csiSet); now != set {
			t.Errorf("by %s the DaemonSet has UID %s, before %s", by, now, set)
		}
		out, err := kubectl("", "-n", harness.Namespace, "get", "daemonset", csiSet, "-o", "jsonpath={.spec.template.spec.containers[*].image}")
		if err != nil || !strings.HasPrefix(out, image) {
			t.Errorf("after %s the agents have the image %s, %v; want %s", by, out, err, image)
		}
		h.goesOn(p)
	}
	own := []string{"upgrade", "hostpath-provisioner", h.chart(), "--wait", "--timeout=5m", "--set=image.repository=" + chartRepository + ",image.tag=" + chartTag}
	h.must(own...)
	same("the upgrade", chartRepository)
	h.must("rollback", "hostpath-provisioner", "1", "--wait", "--timeout=5m")
	same("the rollback", olderRepository)
	h.must(own...)
	same("the second upgrade", chartRepository)
	h.staysFor(p)
	same("the removal that was refused", chartRepository)

	end(h.Scene, p)
	h.must("uninstall", "hostpath-provisioner", "--wait", "--timeout=3m")
	h.removed()
	if pv := h.PV(volume); pv.Status.Phase != corev1.VolumeBound {
		t.Errorf("after the removal PV %s is %s", volume, pv.Status.Phase)
	}
	if data, err := os.ReadFile(csiPath(one, volume, "clock")); err != nil || len(data) == 0 {
		t.Errorf("after the removal the volume has %q, %v", data, err)
	}
	h.must("install", "hostpath-provisioner", h.chart(), "--wait", "--timeout=5m", "--set=image.repository="+chartRepository+",image.tag="+chartTag)
	again := pod{claim: claim.Name, script: "test -s /data/clock"}.run(h.Scene)
	end(h.Scene, again)
	h.Delete(claim)
	h.Gone(volume)
	h.must("uninstall", "hostpath-provisioner", "--wait", "--timeout=3m")
}

// olderTree returns a directory with the sources of an older version, whose image it puts onto the
// nodes: the last tag of a version, or, before there is one, the commit at which the shard chart last
// passed.
func olderTree(t *testing.T) string {
	t.Helper()
	commit, err := olderCommit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the older version is %s", commit)
	sources, err := exec.CommandContext(t.Context(), "git", "-C", root, "archive", commit).Output()
	if err != nil {
		t.Fatalf("git archive %s: %v; a clone without its history does not have it", commit, err)
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(sources)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	name := olderRepository + ":" + olderTag
	if out, err := exec.CommandContext(t.Context(), "make", "-C", dir, "--no-print-directory", "image", "IMAGE="+name).CombinedOutput(); err != nil {
		t.Fatalf("make image: %v\n%s", err, out)
	}
	if err := local.Load(t.Context(), filepath.Join(dir, "_artifacts", "hostpath-provisioner.tar")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func olderCommit(ctx context.Context) (string, error) {
	tags, err := exec.CommandContext(ctx, "git", "-C", root, "tag", "--list", "v*", "--merged", "HEAD", "--sort=-v:refname").Output()
	if err != nil {
		return "", fmt.Errorf("list tags: %w", err)
	}
	if tag, _, _ := strings.Cut(string(tags), "\n"); tag != "" {
		return tag, nil
	}
	proven, err := os.ReadFile(filepath.Join(root, "e2e", "proven.txt"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(proven)) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[0] == "shard" && fields[1] == "chart" {
			return fields[2], nil
		}
	}
	return "", fmt.Errorf("there is no tag, and proven.txt does not have the shard chart")
}
