package suite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/pages"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// place is where a member of etcd has its data.
type place struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	node  harness.Node
	dir   string
	pod   types.UID
	pid   int
}

// The drill of docs/databases.md. Before it, nodes are away in ways that give nothing up.
func TestNodeGoneEtcd(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)
	places, used := map[string]place{}, map[string]bool{}
	for _, name := range etcdMembers {
		p := e.place(name)
		places[name], used[p.node.Name] = p, true
	}
	if len(used) != len(etcdMembers) {
		t.Fatalf("the members are on nodes %v, want three", used)
	}
	e.write(20)

	e.registersAgain("etcd-1")
	e.Shell("kubectl -n " + harness.Namespace + ` patch configmap hostpath-provisioner-settings -p '{"data":{"nodeGoneGrace":"` + goneGrace.String() + `"}}'`)
	e.afterGrace()
	e.partitioned("etcd-1")
	for _, name := range etcdMembers {
		e.untouched(name, places[name])
	}

	lost := places["etcd-2"]
	sum := e.lose("etcd-2")
	for _, name := range etcdMembers[:2] {
		e.untouched(name, places[name])
	}
	if is := e.place("etcd-2"); used[is.node.Name] || is.claim.UID == lost.claim.UID || is.pv.Name == lost.pv.Name {
		t.Errorf("etcd-2 is on %s with claim %s, want another claim on the node that had no member", is.node.Name, is.claim.UID)
	}
	e.write(10)
	for _, name := range etcdMembers {
		e.Eventually("every key", func() error { return e.hasAll(name) })
	}
	e.comesBack(lost, sum)
}

// place waits until a member is ready, and returns where it is.
func (e *etcdScene) place(name string) (p place) {
	e.Helper()
	e.Eventually(name+" ready", func() error { return e.isReady(name) })
	pod, err := e.Client.CoreV1().Pods(e.Namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	p.claim, err = e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).Get(e.Context(), "data-"+name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	p.pv, p.node, p.pod = e.Bound(p.claim), e.nodes[pod.Spec.NodeName], pod.UID
	p.dir = filepath.Join(p.node.Pool, p.pv.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	p.pid, _ = e.processes[pod.UID].PID()
	return p
}

// untouched checks that a member runs as it did, with its claim and PV, to which the operator wrote
// nothing.
func (e *etcdScene) untouched(name string, was place) {
	e.Helper()
	is := e.place(name)
	if is.claim.UID != was.claim.UID || is.claim.DeletionTimestamp != nil || is.pv.UID != was.pv.UID || is.pod != was.pod || is.pid != was.pid ||
		is.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		e.Errorf("%s: %+v, was %+v", name, is, was)
	}
	for _, write := range operatorWrites(e.Scene, e.audit) {
		if strings.Contains(write, was.claim.Name) || strings.Contains(write, was.pv.Name) {
			e.Errorf("the operator wrote %s", write)
		}
	}
}

// registersAgain has the Node of a member deleted for less than the grace period.
func (e *etcdScene) registersAgain(name string) {
	at := e.place(name)
	e.node = at.node
	e.remove()
	time.Sleep(goneGrace + time.Second) // which would be the end, were the grace period that of the next step
	e.NodeNamed(at.node.Name, at.node.Hostname)
	e.agents[at.node.Name].Stop() // at its start it corrects the PV at once
	e.agents[at.node.Name].Restart()
	node, err := e.Client.CoreV1().Nodes().Get(e.Context(), at.node.Name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.boundTo(at.claim, string(node.UID))
}

// partitioned has a member and its node not answer for longer than the grace period. The others
// have a quorum, and it has their keys when it is back.
func (e *etcdScene) partitioned(name string) {
	at := e.place(name)
	if err := syscall.Kill(at.pid, syscall.SIGSTOP); err != nil {
		e.Fatal(err)
	}
	e.away(at.node, true)
	e.agents[at.node.Name].Stop()
	e.Shell("kubectl taint node " + at.node.Name + " node.kubernetes.io/unreachable:NoExecute")
	e.write(10)
	e.afterGrace()
	if err := syscall.Kill(at.pid, syscall.SIGCONT); err != nil {
		e.Fatal(err)
	}
	e.agents[at.node.Name].Restart()
	e.agents[at.node.Name].AwaitReady()
	e.Shell("kubectl taint node " + at.node.Name + " node.kubernetes.io/unreachable:NoExecute-")
	e.away(at.node, false)
	e.Eventually("it has the keys of the others", func() error { return e.hasAll(name) })
}

// away sets whether a node is ready, and whether a kubelet runs its pods.
func (e *etcdScene) away(node harness.Node, away bool) {
	e.Helper()
	e.mu.Lock()
	e.down[node.Name] = away
	e.mu.Unlock()
	status := map[bool]string{false: "True", true: "Unknown"}[away]
	e.Shell("kubectl patch node " + node.Name + ` --subresource=status -p '{"status":{"conditions":[{"type":"Ready","status":"` + status + `"}]}}'`)
}

// lose has a member's machine end, follows the page, and returns what then was in the lost volume.
func (e *etcdScene) lose(name string) (sum string) {
	at := e.place(name)
	before, err := e.output("etcd-0", "member", "list")
	if err != nil {
		e.Fatal(err)
	}
	e.away(at.node, true)
	if err := syscall.Kill(at.pid, syscall.SIGKILL); err != nil {
		e.Fatal(err)
	}
	e.agents[at.node.Name].Kill()
	sum = e.sum(at.dir)
	e.write(10) // with the quorum of the others

	begin := time.Now()
	e.follow("## Drill: a node of etcd is lost", map[string]string{"NODE": at.node.Name})
	e.Logf("the member was healthy on another node %s after the page's first command", time.Since(begin).Round(time.Second))
	e.Gone(at.pv.Name)
	awaitEvent(e.Scene, at.claim.UID, "VolumeReleased", "so the claim is deleted")
	after, err := e.output("etcd-0", "member", "list")
	if err != nil {
		e.Fatal(err)
	}
	of := regexp.MustCompile(`(?m)^(\w+), started, ` + name + `,`)
	was, is := of.FindStringSubmatch(before), of.FindStringSubmatch(after)
	if was == nil || is == nil || was[1] == is[1] || strings.Count(after, ", started, ") != len(etcdMembers) {
		e.Errorf("the members are\n%safter\n%s", after, before)
	}
	hashes, err := e.output(name, "endpoint", "hashkv", "--cluster")
	all := regexp.MustCompile(`(?m)^http\S+, (\d+),`).FindAllStringSubmatch(hashes, -1)
	if err != nil || len(all) != len(etcdMembers) || all[0][1] != all[1][1] || all[0][1] != all[2][1] {
		e.Errorf("the hashes are %s, %v", hashes, err)
	}
	if err := e.hasAll(name); err != nil {
		e.Error(err)
	}
	return sum
}

// follow runs the commands of a section of docs/databases.md.
func (e *etcdScene) follow(title string, values map[string]string) {
	e.Helper()
	text, err := os.ReadFile("../../docs/databases.md")
	if err != nil {
		e.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands, err := pages.Commands(section)
	if err != nil || !found || len(commands) == 0 {
		e.Fatalf("docs/databases.md has no commands below %q: %v", title, err)
	}
	script := "PATH=" + e.bin + ":$PATH\nset -x\n"
	for _, c := range commands {
		script += strings.Replace(c.Fill(values), "--timeout=15m", "--timeout=2m", 1) + "\n" // the grace period is short
	}
	e.Shell(script)
}

// sum returns a sum of every file below a directory.
func (e *etcdScene) sum(dir string) string {
	e.Helper()
	cmd := exec.Command("sh", "-euc", "find . -type f | sort | xargs sha256sum")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) == 0 {
		e.Fatalf("sum of %s: %v: %s", dir, err, out)
	}
	return string(out)
}

// comesBack has the lost node back with its disk. The volume is an orphan there, which no claim gets
// and no agent changes, and the cluster refuses the member that is in it.
func (e *etcdScene) comesBack(lost place, sum string) {
	e.NodeNamed(lost.node.Name, lost.node.Hostname)
	agent := e.agents[lost.node.Name]
	agent.Restart()
	agent.AwaitReady()
	e.Eventually("orphan", func() error {
		if why := agent.Volume(lost.pv.Name).Orphan.Why; why == "" {
			return errors.New("the volume is none")
		}
		return nil
	})
	another := e.Create(harness.Claim{Class: e.class, Selected: lost.node.Name})
	if pv := e.Bound(another); pv.Name == lost.pv.Name {
		e.Errorf("another claim has the lost volume")
	}
	if names := e.Children(filepath.Join(lost.node.Pool, harness.PVName(another))); len(names) > 0 {
		e.Errorf("the volume of another claim has %q", names)
	}
	e.Delete(another)
	e.Gone(harness.PVName(another))
	e.CatchUp(agent)
	if is := e.sum(lost.dir); is != sum {
		e.Errorf("the lost volume has\n%s\nwant\n%s", is, sum)
	}

	out, err := exec.CommandContext(e.Context(), "timeout", append([]string{"60"}, e.args("etcd-2", lost.dir, "existing",
		"http://127.0.0.1:0", "http://127.0.0.1:0")...)...).CombinedOutput()
	if !strings.Contains(string(out), "the member has been permanently removed from the cluster") {
		e.Errorf("the member in the lost volume: %v\n%s", err, out)
	}
	for _, name := range etcdMembers {
		if err := e.hasAll(name); err != nil {
			e.Error(err)
		}
	}
	list, err := e.output("etcd-0", "member", "list")
	if err != nil || strings.Count(list, "\n") != len(etcdMembers) {
		e.Errorf("the members are %s, %v", list, fmt.Sprint(err))
	}
}
