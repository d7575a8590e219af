package events

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An event is read when a workload has made a claim of the name for another volume already: its command
// leaves that one, and deletes the one that still names the PV.
func TestToDeleteClaim(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
	for named, want := range map[string]string{"pvc-1": "-n shop delete pvc data --wait=false\n", "pvc-11": "", "": ""} {
		dir := t.TempDir()
		kubectl := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n\"-n shop get pvc data -o jsonpath={.spec.volumeName}\") printf %%s %q ;;\n"+
			"*) printf '%%s\\n' \"$*\" >>%s/done ;;\nesac\n", named, dir)
		if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("sh", "-c", ToDeleteClaim(claim, "pvc-1", " --wait=false")+"true")
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if done, _ := os.ReadFile(filepath.Join(dir, "done")); err != nil || string(done) != want {
			t.Errorf("of a claim of volume %q: %q, want %q; %s %v", named, done, want, out, err)
		}
	}
}

// A text that is too long has as many of its parts as fit, and the number of the others.
func TestFit(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("claim c-%03d is not bound", i)
	}
	for name, row := range map[string]struct {
		text, want string
		max        int
	}{
		"short":        {"a; b", "a; b", 4},
		"one too much": {"aaaa; bbbb; cccccccccccccc", "aaaa; bbbb; and 1 more", 25},
		"one part":     {strings.Repeat("é", 20), strings.Repeat("é", 8) + "…", 20},
		"none fits":    {strings.Repeat("a", 30) + "; b", strings.Repeat("a", 17) + "…", 20},
	} {
		if got := Fit(row.text, row.max); got != row.want || len(got) > row.max {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	if got := Fit(strings.Join(many, "; "), MaxNote); len(got) > MaxNote || len(got) < MaxNote-40 || !strings.HasSuffix(got, "; and 962 more") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
