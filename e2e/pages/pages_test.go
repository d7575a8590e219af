package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the top of the tree.
const root = "../.."

// Every page with commands is followed, or says elsewhere why not.
func TestEveryCommandIsRun(t *testing.T) {
	found := map[string]bool{}
	look := func(path string) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		commands, err := Commands(string(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if len(commands) == 0 {
			return
		}
		found[path] = true
		why, elsewhere := Elsewhere[path]
		followed := slices.Contains(Followed, path) || strings.HasPrefix(path, Runbooks) && !elsewhere
		if followed == elsewhere || elsewhere && why == "" {
			t.Errorf("%s has commands, the first in line %d: have TestPages of nodes run them and add the page to Followed, or say in Elsewhere what does",
				path, commands[0].Line)
		}
	}
	look("README.md")
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			path, err = filepath.Rel(root, path)
			look(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range Elsewhere {
		if !found[path] {
			t.Errorf("%s has no commands", path)
		}
	}
	for _, path := range Followed {
		if !found[path] {
			t.Errorf("%s has no commands", path)
		}
	}
}

func TestCommands(t *testing.T) {
	const page = "Text.\n\n    kubectl get pods   # a node's\n    NAME   READY\n\n```sh\nkubectl patch pv PV \\\n  -p '{\"a\":1}'\nPOD=$(kubectl get \\\n  -o name)\n```\n\n" +
		"```yaml\nkubectl: no\n```\n\n```sh\ncat >x <<END\na:\n  - b\nEND\n```\n\n    kubectl patch x -p '{\n    \"a\": 1}'\n\n1. A list.\n\n   ```sh\n   kubectl delete x\n   ```\n" +
		"```sh\ncat a |\n  tar -x\n```\n"
	got, err := Commands(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []Command{
		{3, "kubectl get pods   # a node's"}, {7, "kubectl patch pv PV \\\n-p '{\"a\":1}'"}, {9, "POD=$(kubectl get \\\n-o name)"},
		{18, "cat >x <<END\na:\n  - b\nEND"}, {24, "kubectl patch x -p '{\n\"a\": 1}'"}, {30, "kubectl delete x"}, {33, "cat a |\ntar -x"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got[0].Sets() || !got[2].Sets() {
		t.Error("only the third sets a variable")
	}
	if _, err := Commands("```sh\nkubectl patch -p '{\n"); err == nil {
		t.Error("a command without an end is none")
	}
}

// A program that no one added would pass as output, and the page would be followed by no test.
func TestUnknownPrograms(t *testing.T) {
	for _, page := range []string{"```sh\nfrobnicate --now /dev/sdb\n```\n", "```sh\ncat <<END\na\nEND\nb\n```\n"} {
		if got, err := Commands(page); err == nil {
			t.Errorf("%q has the commands %+v", page, got)
		}
	}
	for _, line := range []string{"restic backup .", "tar -cSf /b.tar .", "mkfs.xfs /dev/sdb", "chattr +C .", "fio job.fio", "A_B=1", "talosctl patch mc",
		"./hostpath-provisioner inspect"} {
		if got, err := Commands("    " + line + "\n"); err != nil || len(got) != 1 {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
	const here = "```sh\n# A file.\ncat >a <<END\nimages:\nEND\nformat: no\n```\n"
	if _, err := Commands(strings.Replace(here, "format: no\n", "", 1)); err != nil {
		t.Error(err)
	}
	if _, err := Commands(here); err == nil {
		t.Error("format begins no command, although for does")
	}
}

func TestFill(t *testing.T) {
	values := map[string]string{"PV": "pvc-1", "POD": "agent-x", "shop": "ns", "volume.yaml": "/tmp/v.yaml", "NODE": "node-01"}
	for text, want := range map[string]string{
		"kubectl get pv PV":                                      "kubectl get pv pvc-1",
		"kubectl get pv PV -o custom-columns='PV:.a":             "kubectl get pv pvc-1 -o custom-columns='PV:.a",
		"get --raw /pods/POD:9898/proxy":                         "get --raw /pods/agent-x:9898/proxy",
		"exec $POD ${POD/pod/pods} POD=1":                        "exec $POD ${POD/pod/pods} POD=1",
		`"namespace":"shop" >volume.yaml -n shop`:                `"namespace":"ns" >/tmp/v.yaml -n ns`,
		"-l hostpath-provisioner.kubevirt.io/node=NODE POD_NAME": "-l hostpath-provisioner.kubevirt.io/node=node-01 POD_NAME",
	} {
		if got := (Command{Text: text}).Fill(values); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
