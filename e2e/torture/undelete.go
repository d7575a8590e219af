package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// keptDir has the deleted volumes that a pool keeps, beside their records.
const keptDir = "kept"

// retention is what the classes of volumes that are undeleted have as their parameter trashRetention.
const retention = "1h"

// command runs a command of the agent's program beside an agent, and returns what it printed.
func (n *node) command(c *campaign, args ...string) (string, error) {
	var failed strings.Builder
	cmd := exec.CommandContext(c.Context(), c.Env.Agent, append(args, "--http-address="+n.agent.Address(9898))...)
	cmd.Env = append(os.Environ(), "PV_DIR="+n.Pool, "DATADIR="+harness.Datadir(harness.LocalPool, filepath.Join(n.Pool, "csi")))
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%q: %w: %s", args, err, strings.TrimSpace(failed.String()))
	}
	return string(out), err
}

// keptAs returns the ID under which the node's pools keep the volume of a PV, "" if they do not.
func (n *node) keptAs(c *campaign, pv string) (id string, err error) {
	out, err := n.command(c, "trash", "-o", "json")
	if err != nil {
		return "", err
	}
	var all struct {
		Kept []struct{ ID, PV, NotOffered string }
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return "", err
	}
	for _, k := range all.Kept {
		if k.PV == pv && k.NotOffered == "" {
			id = k.ID
		}
	}
	return id, nil
}

// undelete brings the volume of a deleted claim back, if its pool keeps it, and has a new claim of the
// name get it. A volume that is in its place again is nobody's until its objects are there, so it goes on
// until they are, but not for a volume without room, which stays kept. Agents and the API server are killed
// meanwhile.
func (t *tenant) undelete(cl *claim) {
	if !t.isGone(cl) {
		return // its agent has not deleted it yet
	}
	cl.asked = true
	n := t.nodeOf(cl.directory)
	const long = 3 * time.Minute
	var objects string // applied until both are there: the API server may end between the two
	for begin := time.Now(); ; {
		printed, shown := n.command(t.campaign, "orphans", "show", filepath.Base(cl.directory), "--pool="+filepath.Dir(cl.directory))
		if shown == nil {
			objects = printed
		}
		if objects != "" {
			if back := t.apply(cl, objects); back != nil {
				if !t.awaitRecorded(cl, back, begin.Add(long)) {
					return
				}
				t.claims = append(t.claims, back)
				t.undeleted.Add(1)
				t.Logf("%s: undeleted after %s, UID %s", cl.name, time.Since(begin).Round(time.Millisecond), back.uid)
				return
			}
		}
		id, err := n.keptAs(t.campaign, cl.pv())
		switch {
		case err == nil && id == "" && shown != nil && t.isAbsent(cl):
			t.Logf("%s: not kept any more: %v", cl.name, shown)
			return
		case err == nil && id != "":
			_, err = n.command(t.campaign, "trash", "undelete", id)
			t.Logf("%s: undelete %s: %v", cl.name, id, err)
			if noRoom(err) {
				cl.asked = false // it stays kept: others fill the pool, perhaps for good
				return
			}
		}
		if time.Since(begin) > long {
			t.find(Leaked, "the volume of claim %s is neither kept nor back: %v, %v", cl.name, shown, err)
			return
		}
		if !pause(t.Context(), 200*time.Millisecond) {
			return
		}
	}
}

// noRoom reports whether a volume does not come back for want of space, as long as no other volume goes. A
// refusal by a pool that has the space is not one.
func noRoom(err error) bool {
	var wanted, available int64
	if err == nil {
		return false
	}
	_, said, found := strings.Cut(err.Error(), "not enough space: ")
	if !found {
		return false
	}
	n, _ := fmt.Sscanf(said, "wanted %d bytes, %d of", &wanted, &available)
	return n == 2 && wanted > available
}

// isGone reports whether the claim and its PV do not exist any more.
func (t *tenant) isGone(cl *claim) bool {
	err := t.insist("read claim", func(ctx context.Context) error {
		_, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Get(ctx, cl.name, metav1.GetOptions{})
		return err
	})
	if !apierrors.IsNotFound(err) {
		return false
	}
	err = t.insist("read PV", func(ctx context.Context) error {
		_, err := t.Client.CoreV1().PersistentVolumes().Get(ctx, cl.pv(), metav1.GetOptions{})
		return err
	})
	return apierrors.IsNotFound(err)
}

// isAbsent reports whether a volume has no directory and no record in its place. One that is undeleted has
// its record there first.
func (t *tenant) isAbsent(cl *claim) bool {
	records := filepath.Join(filepath.Dir(cl.directory), privateDir, "records", filepath.Base(cl.directory))
	_, directory := os.Lstat(cl.directory)
	_, record := os.Lstat(records)
	return os.IsNotExist(directory) && os.IsNotExist(record)
}

// apply makes the objects that the agent printed, and returns the new claim, nil if they could not be made.
func (t *tenant) apply(cl *claim, objects string) *claim {
	if _, err := t.Plane.Kubectl(objects, "apply", "-f", "-"); err != nil {
		t.Logf("%s: apply: %v", cl.name, err)
		return nil
	}
	now, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Get(t.Context(), cl.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		t.find(Lost, "the claim %s of an undeleted volume is gone", cl.name)
	}
	if err != nil {
		return nil
	}
	return &claim{kind: cl.kind, name: cl.name, uid: now.UID, size: now.Spec.Resources.Requests.Storage().Value(), volume: cl.pv(),
		policy: corev1.PersistentVolumeReclaimRetain, files: cl.files}
}

// awaitRecorded waits until an agent has recorded the new claim and PV of an undeleted volume. Before that no
// PV may delete the volume, and a claim that goes leaves its PV to the next one of its name: a tenant who
// deleted it then would need an administrator.
func (t *tenant) awaitRecorded(cl, back *claim, until time.Time) bool {
	path := filepath.Join(filepath.Dir(cl.directory), privateDir, "records", filepath.Base(cl.directory))
	for {
		var record struct {
			PVUID string
			Owner struct{ UID string }
		}
		pv, err := t.Client.CoreV1().PersistentVolumes().Get(t.Context(), back.volume, metav1.GetOptions{})
		if err == nil {
			var data []byte
			if data, err = os.ReadFile(path); err == nil {
				err = json.Unmarshal(data, &record)
			}
		}
		if err == nil && record.PVUID == string(pv.UID) && record.Owner.UID == string(back.uid) {
			return true
		}
		if time.Now().After(until) {
			t.find(Leaked, "the volume of claim %s is back, and its claim %s is not recorded: %+v, %v", cl.name, back.uid, record, err)
			return false
		}
		if !pause(t.Context(), 200*time.Millisecond) {
			return false
		}
	}
}

// nodeOf is the node that has a directory of a volume.
func (c *campaign) nodeOf(directory string) *node {
	for _, n := range c.nodes {
		if strings.HasPrefix(directory, n.Pool+"/") {
			return n
		}
	}
	c.Fatalf("no node has %s", directory)
	return nil
}

// emptyKept has all deleted volumes removed that pools keep.
func (c *campaign) emptyKept(s Sight) {
	for i, n := range c.nodes {
		if !slices.ContainsFunc(s.Disks[i].Pools, func(p SeenPool) bool { return len(p.Kept) > 0 }) {
			continue
		}
		if out, err := n.command(c, "trash", "remove", "--all"); err != nil {
			c.Logf("remove what %s keeps: %v: %s", n.Name, err, out) // what stays is a finding
		}
	}
}
