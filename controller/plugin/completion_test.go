package plugin_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// Names come from the cluster.
func TestComplete(t *testing.T) {
	c := partly()
	c.Class("local").Parameters[contract.StoragePool] = "fast"
	c.Add(scene.Claim("vms", "disk-1", "pvc-6"))
	t.Setenv("KUBECONFIG", c.Start(t))
	for typed, want := range map[string]string{
		"explain ":         "data\tBound new\tPending",
		"explain -n vms ":  "disk-1\tBound",
		"explain data ":    "", // it takes one claim
		"node ":            "node-01 node-02 node-03 node-04 windows-01",
		"pools ":           "fast",
		"volumes --node ":  "node-01 node-02 node-03 node-04 windows-01",
		"volumes --class ": "cloud\tebs.csi.aws.com local\tkubevirt.io.hostpath-provisioner local-path\trancher.io/local-path raw\tkubernetes.io/no-provisioner",
		"volumes -o ":      "wide json yaml name",
		"status --context": "--context\tThe name of the kubeconfig context to use",
		"completion ":      "bash zsh fish powershell",
		"completion b":     "bash",
		"status ":          "",
	} {
		args := strings.Split(typed, " ")
		_, out, _ := call(t.Context(), append([]string{"__complete"}, args...)...)
		names, rest, _ := strings.Cut(out, ":")
		if got := strings.Join(strings.FieldsFunc(names, func(r rune) bool { return r == '\n' }), " "); got != want || !strings.HasPrefix(rest, "4") {
			t.Errorf("%q completes %q, want %q; all of it is\n%s", typed, got, want, out)
		}
	}
}

// An API server that does not answer costs a TAB two seconds, not more, and prints nothing.
func TestCompleteWithoutAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	_, out, _ := call(t.Context(), "__complete", "--server", "http://"+l.Addr().String(), "node", "")
	if took := time.Since(began); took > 20*time.Second || !strings.HasPrefix(out, ":4") {
		t.Errorf("after %s: %s", took, out)
	}
}

// onPath writes plugins into directories of their own, and returns the directories. They are PATH.
func onPath(t *testing.T, programs ...string) (dirs []string) {
	for _, name := range programs {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	t.Setenv("PATH", strings.Join(dirs, string(filepath.ListSeparator)))
	return dirs
}

func install(t *testing.T, program string) string {
	var out bytes.Buffer
	c := plugin.Command("v1", genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	plugin.Named(c, program)
	c.SetArgs([]string{"completion", "--install"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		return "error: " + err.Error()
	}
	return strings.TrimSpace(out.String())
}

func TestInstallCompletion(t *testing.T) {
	dirs := onPath(t, "kubectl", "kubectl-hpp", "kubectl-hpp")
	file := filepath.Join(dirs[1], "kubectl_complete-hpp")
	const want = "#!/bin/sh\n# written by kubectl hpp completion --install\nexec kubectl hpp __complete \"$@\"\n"
	for _, said := range []string{"wrote " + file, "it was there already: " + file} {
		if got := install(t, "/somewhere/kubectl-hpp"); got != said {
			t.Errorf("%q, want %q", got, said)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm()&0o111 == 0 {
		t.Errorf("it cannot be run: %v, %v", st.Mode(), err)
	}
	// That of an older version is replaced, and another program's is not.
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(want, "exec ", "", 1))
	if got := install(t, "kubectl-hpp"); got != "replaced "+file {
		t.Error(got)
	}
	write("#!/bin/sh\necho another\n")
	if got := install(t, "kubectl-hpp"); !strings.HasPrefix(got, "error: --install: "+file+" is there, and is not of this plugin") {
		t.Error(got)
	}
	if text, _ := os.ReadFile(file); string(text) != "#!/bin/sh\necho another\n" {
		t.Errorf("another program was overwritten: %q", text)
	}
	// A link may lead to the file of another program.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte(want+"# kept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		t.Fatal(err)
	}
	if got := install(t, "kubectl-hpp"); !strings.HasPrefix(got, "error: ") {
		t.Error(got)
	}
	if text, _ := os.ReadFile(target); string(text) != want+"# kept\n" {
		t.Errorf("the target of a link was overwritten: %q", text)
	}
}

// The program's name is the command's, whatever it is.
func TestNamed(t *testing.T) {
	onPath(t, "kubectl-local_disks")
	for program, want := range map[string]string{
		"kubectl-hpp": "kubectl hpp", "/usr/bin/kubectl-hpp": "kubectl hpp", "kubectl-hpp.exe": "kubectl hpp",
		"kubectl-local_disks": "kubectl local-disks", "hpp": "hpp",
	} {
		var out bytes.Buffer
		c := plugin.Command("v1", genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
		plugin.Named(c, program)
		c.SetArgs([]string{"node", "--help"})
		if err := c.Execute(); err != nil || !strings.Contains(out.String(), "Usage:\n  "+want+" node NODE") {
			t.Errorf("%s: %v, %s", program, err, out.String())
		}
	}
	if got := install(t, "kubectl-local_disks"); !strings.HasSuffix(got, "/kubectl_complete-local_disks") {
		t.Error(got)
	}
	if got := install(t, "hpp"); !strings.HasPrefix(got, "error: --install: kubectl runs plugins whose name begins with kubectl-") {
		t.Error(got)
	}
}

// The script for bash is one that bash reads.
func TestCompletionScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out := runPlugin(t.Context(), file, "completion", shell)
		if !strings.Contains(out, "kubectl-hpp") || !strings.Contains(out, "__complete") {
			t.Errorf("%s: %.200s", shell, out)
		}
		if shell != "bash" {
			continue
		}
		c := exec.Command("bash", "-n")
		c.Stdin = strings.NewReader(out)
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("bash: %v: %s", err, text)
		}
	}
}
