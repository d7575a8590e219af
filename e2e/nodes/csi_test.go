package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// What manifests/csi calls things, and all forms of it.
const (
	csiDriver   = "kubevirt.io.hostpath-provisioner"
	csiClass    = "hostpath-csi"
	csiSet      = "hostpath-provisioner-csi"
	csiLabel    = "k8s-app=" + csiSet
	csiTopology = "topology.hostpath.csi/node"
	csiSocket   = "/var/lib/kubelet/plugins/csi-hostpath/csi.sock"
	csiToldBy   = "/var/lib/kubelet/plugins_registry/" + csiDriver + "-reg.sock"
)

// csiForm is one way to run the driver. Each takes the place of the one before it.
type csiForm struct {
	apply   []string // kubectl's words for all of it
	label   string   // that its pods have, and no others
	noSpace string   // how a claim is told that its node has no space
}

var (
	csiAlone       = ourForm("csi", tooBig+" requested")
	csiWithSidecar = ourForm("csi-sidecars", "ResourceExhausted")
	csiBothModes   = ourForm("examples/both-modes", csiAlone.noSpace)
)

func ourForm(dir, noSpace string) csiForm {
	return csiForm{apply: []string{"-k", filepath.Join("..", "..", "manifests", dir)}, label: csiLabel, noSpace: noSpace}
}

type csiRow = func(*testing.T, *harness.Scene)

// The driver as one container, and the kubelet: deployed as a user would, switched to the standard
// sidecar and back, and taken down again, because its pool lies inside the agent's, where the other
// tests break disks. No other test runs meanwhile.
func TestCSI(t *testing.T) {
	t.Cleanup(func() {
		undeployCSI(t)
		redeploy(t)
	})
	csiAlone.deploy(t)
	csiTogether(t, "Group", map[string]csiRow{
		"registered": csiRegistered, "persists": csiPersists, "statefulset": csiStatefulSet,
		"generic": csiGeneric, "inline": csiInline, "inlinetoobig": csiInlineTooBig, "readonly": csiReadOnly, "fsgroup": csiFSGroup,
		"subpath": csiSubPath, "shared": csiShared, "onepod": csiOnePod, "examples": csiExamples, "readme": csiReadme,
		"toobig": csiTooBig, "nospace": csiAlone.csiNoSpace, "full": csiFull,
		"claimdeleted": csiClaimDeleted, "pvdeleted": csiPVDeleted, "inuse": csiInUse,
	})
	t.Run("sanity", func(t *testing.T) { csiSanity(t, newScene(t)) })
	t.Run("serves", csiServes)
	t.Run("permitted", csiAlone.permitted)
	csiTogether(t, "Agents", map[string]csiRow{"restart": csiRestart, "killed": csiKilled})
	csiTogether(t, "Nodes", map[string]csiRow{"kubelet": csiKubelet, "sockets": csiSockets})
	t.Run("permitted", csiAlone.permitted)
	t.Run("sidecar", func(t *testing.T) { csiSwitch(t, newScene(t)) })
	t.Run("back", func(t *testing.T) { csiSwitchBack(t, newScene(t)) })
}

// csiTogether runs rows that do not disturb each other: those that disturb a node are alone with
// it.
func csiTogether(t *testing.T, name string, rows map[string]csiRow) {
	t.Run(name, func(t *testing.T) {
		for name, row := range rows {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				row(t, newScene(t))
			})
		}
	})
}

// Who was not allowed to do something logs it, and goes on as well as it can.
func (f csiForm) permitted(t *testing.T) {
	logs, err := kubectl("", "-n", harness.Namespace, "logs", "-l", f.label, "--all-containers", "--tail=-1")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(logs) {
		if strings.Contains(line, "forbidden") {
			t.Errorf("the ClusterRole or the Role is too small: %s", line)
		}
	}
}

// deploy applies the form as a user would, also over another, and waits until every node has it.
func (f csiForm) deploy(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		append([]string{"apply"}, f.apply...),
		{"-n", harness.Namespace, "rollout", "status", "daemonset/" + csiSet, "--timeout=180s"},
	} {
		if _, err := kubectl("", args...); err != nil {
			t.Fatal(err)
		}
	}
}

// loadSidecar puts the sidecar that its project releases onto the nodes.
func loadSidecar(t *testing.T) {
	t.Helper()
	program, err := cluster.BuildProvisioner(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	loadProgram(t, cluster.ProvisionerImage, program)
}

// loadProgram puts an image of one static program onto the nodes.
func loadProgram(t *testing.T, name, program string) {
	t.Helper()
	image, err := cluster.BinaryImage(name, program)
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err = errors.Join(err, cluster.WriteImage(image, archive)); err != nil {
		t.Fatal(err)
	}
	if err := local.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}

// undeployCSI deletes what our manifests have. All forms of the driver have the names of one.
func undeployCSI(t *testing.T) {
	t.Helper()
	var files []string
	for _, file := range []string{"daemonset", "storageclass", "csidriver", "rbac", "serviceaccount", "quota"} {
		files = append(files, filepath.Join(root, "manifests", "csi", file+".yaml"))
	}
	csiAlone.undeploy(t, files...)
}

// undeploy deletes what is in the files, in this order, and leaves the namespace, which is the
// agent's too.
func (f csiForm) undeploy(t *testing.T, files ...string) {
	t.Helper()
	if t.Failed() {
		logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", f.label, "--all-containers", "--prefix", "--tail=60")
		pods, _ := kubectl("", "-n", harness.Namespace, "describe", "pod", "-l", f.label)
		t.Logf("%s\ndrivers:\n%s", pods, logs)
	}
	for _, file := range files {
		if _, err := kubectl("", "delete", "--cascade=foreground", "-f", file); err != nil {
			t.Error(err)
		}
	}
	for _, n := range local.Nodes() {
		if _, err := onNode(n, "rm", "-r", "/var/hpvolumes/csi"); err != nil {
			t.Error(err)
		}
		for _, socket := range []string{csiSocket, csiToldBy} {
			if _, err := onNode(n, "test", "!", "-e", socket); err != nil {
				t.Errorf("the driver stopped and left a socket: %v", err)
			}
		}
	}
	s := &harness.Scene{TB: t, Env: env}
	s.Eventually("nothing is known of the driver", func() error {
		left, err := kubectl("", "-n", harness.Namespace, "get", "csistoragecapacities", "-o", "name")
		if err == nil && left == "" {
			left, err = kubectl("", "get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].name}")
		}
		if err == nil && left != "" {
			err = fmt.Errorf("there are still %q", left)
		}
		return err
	})
}
