package proof

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAhead(t *testing.T) {
	given := []step{{packages: "@disk"}, {packages: "@unit @disk", cluster: true}, {cluster: true, ahead: "make x"}}
	if got, want := aheadOf(given), []string{"(" + buildCluster + ")", "make x"}; !slices.Equal(got, want) {
		t.Errorf("%q run beside the steps, want %q", got, want)
	}
	if got, want := packages(given).packages, "@disk @unit"; got != want {
		t.Errorf("%q is installed, want %q", got, want)
	}

	dir := t.TempDir()
	var out strings.Builder
	a := goAhead(t.Context(), dir, []string{"false", "pwd >done; nice >>done"})
	a.wait(t.Context(), &out)
	text, err := os.ReadFile(filepath.Join(dir, "done"))
	if err != nil || string(text) != dir+"\n19\n" || out.String() != "" {
		t.Errorf("%q %v, and %q is printed; want it done after the failure of another, with the lowest priority",
			text, err, out.String())
	}
	a.end()
}

func TestAheadEnds(t *testing.T) {
	dir := t.TempDir()
	a := goAhead(t.Context(), dir, []string{"sleep 1000 & echo $! >tmp; mv tmp pid; wait"})
	var pid int
	for deadline := time.Now().Add(time.Minute); pid == 0; time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	a.end()
	a.end()
	// Another process may wait for it, so it can be there as a zombie for a moment.
	for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(time.Millisecond) {
		if stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child of a command still runs")
		}
	}
}
