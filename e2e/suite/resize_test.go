package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	reasonResizeFailed = "VolumeResizeFailed"
	reasonResized      = "VolumeResizeSuccessful"
)

// patchClaim changes a claim, or its status, by a merge patch.
func patchClaim(s *harness.Scene, claim *corev1.PersistentVolumeClaim, patch string, part ...string) error {
	s.Helper()
	_, err := s.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(s.Context(), claim.Name,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}, part...)
	return err
}

// ask changes what the claim asks for.
func ask(s *harness.Scene, claim *corev1.PersistentVolumeClaim, size string) {
	s.Helper()
	if err := patchClaim(s, claim, fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)); err != nil {
		s.Fatalf("ask for %s: %v", size, err)
	}
}

// hasSize returns nil where claim, PV and volume say the size, and nothing of growing is left to
// say.
func hasSize(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, size string) error {
	s.Helper()
	want := resource.MustParse(size)
	st, pv := s.Read(claim).Status, s.PV(harness.PVName(claim))
	if st.Capacity.Storage().Cmp(want) != 0 || st.AllocatedResources.Storage().Cmp(want) != 0 || pv.Spec.Capacity.Storage().Cmp(want) != 0 {
		return s.NotYet(claim.UID, "the claim has %s (allocated %s), the PV %s, want %s; conditions %+v", st.Capacity.Storage(),
			st.AllocatedResources.Storage(), pv.Spec.Capacity.Storage(), size, st.Conditions)
	}
	if len(st.Conditions)+len(st.AllocatedResourceStatuses) > 0 {
		return fmt.Errorf("the claim still says %+v, %v", st.Conditions, st.AllocatedResourceStatuses)
	}
	if v := a.Volume(harness.PVName(claim)); v.Bytes != want.Value() {
		return fmt.Errorf("the volume has %d bytes, want %s", v.Bytes, size)
	}
	return nil
}

func wantSize(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, size string) {
	s.Helper()
	s.Eventually("claim "+claim.Name+" has "+size, func() error { return hasSize(s, a, claim, size) })
}

// saysWhy returns nil where the claim's one condition says why it does not grow, in words like the
// patterns.
func saysWhy(s *harness.Scene, claim *corev1.PersistentVolumeClaim, state corev1.ClaimResourceStatus, patterns ...string) error {
	s.Helper()
	st := s.Read(claim).Status
	if len(st.Conditions) != 1 || st.Conditions[0].Type != corev1.PersistentVolumeClaimControllerResizeError ||
		st.Conditions[0].Status != corev1.ConditionTrue || st.AllocatedResourceStatuses[corev1.ResourceStorage] != state {
		return s.NotYet(claim.UID, "the claim says %+v, %v, want one error and %q", st.Conditions, st.AllocatedResourceStatuses, state)
	}
	for _, p := range patterns {
		if words := st.Conditions[0].Message; !regexp.MustCompile(p).MatchString(words) {
			return fmt.Errorf("condition %q does not match %q", words, p)
		}
	}
	return nil
}

// resized returns nil where success was said so many times.
func resized(s *harness.Scene, claim *corev1.PersistentVolumeClaim, times int) error {
	s.Helper()
	for _, e := range s.Events(claim.UID) {
		if e.Reason == reasonResized && e.Type == corev1.EventTypeNormal && e.Ours() {
			times -= e.Count
		}
	}
	if times != 0 {
		return fmt.Errorf("success was said %d times too few: %v", times, s.Events(claim.UID))
	}
	return nil
}

// warnedThenResized waits until success was said once, and then looks for the one warning. An agent
// sends its events in their order, but some time after the claim says that it has grown.
func warnedThenResized(s *harness.Scene, claim *corev1.PersistentVolumeClaim, patterns ...string) {
	s.Helper()
	s.Eventually("success said", func() error { return resized(s, claim, 1) })
	if err := s.Warned(claim.UID, reasonResizeFailed, patterns...); err != nil {
		s.Error(err)
	}
}

// Both shapes grow on both nodes, each by its own agent, and all that says a size says the new one.
func TestGrow(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	var agents []*harness.Agent
	for _, node := range []harness.Node{s.Node("01"), s.Node("02")} {
		agents = append(agents, s.Start(node, harness.Options{CSI: "hostpath,csi", DataDir: harness.Datadir(harness.LocalPool, node.Pool)}))
	}
	var claims [][]*corev1.PersistentVolumeClaim
	for _, a := range agents {
		a.AwaitReady()
		claims = append(claims, []*corev1.PersistentVolumeClaim{
			s.Create(harness.Claim{Node: a.Node.Name}), s.Create(harness.Claim{Class: harness.ClassCSI, Selected: a.Node.Name})})
	}
	for i := range agents {
		for shape, claim := range claims[i] {
			if pv := s.Bound(claim); (pv.Spec.CSI != nil) != (shape == 1) {
				t.Fatalf("claim %d has the PV %+v", shape, pv.Spec.PersistentVolumeSource)
			}
		}
	}
	all := slices.Concat(claims...)
	begin := time.Now()
	for _, claim := range all {
		ask(s, claim, "25Mi")
	}
	s.Eventually("all have 25Mi", func() error {
		for _, claim := range all {
			if has := s.Read(claim).Status.Capacity.Storage(); has.String() != "25Mi" {
				return fmt.Errorf("claim %s has %s", claim.Name, has)
			}
		}
		return nil
	})
	t.Logf("%d claims grew in %s", len(all), time.Since(begin).Round(time.Millisecond))
	for i, a := range agents {
		for _, claim := range claims[i] {
			wantSize(s, a, claim, "25Mi")
			s.Eventually("said", func() error { return resized(s, claim, 1) })
			if err := s.Unwarned(claim.UID); err != nil {
				t.Error(err)
			}
		}
		if err := a.MetricIs(2*25<<20, "kubevirt_hpp_pool_allocated_bytes"); err != nil {
			t.Error(err)
		}
		if err := a.MetricIs(2, "kubevirt_hpp_resizes_total", `result="grown"`); err != nil {
			t.Error(err)
		}
		if added, err := a.Metric("workqueue_adds_total", `name="resizes"`); err != nil || added < 2 {
			t.Errorf("%v claims were queued for growing, want 2 at least; %v", added, err)
		}
		if requests, err := a.Metric("rest_client_requests_total", `code="200"`, `method="PATCH"`); err != nil || requests < 4 {
			t.Errorf("%v patches were counted, want those of two PVs and two claims; %v", requests, err)
		}
	}
	ask(s, claims[0][0], "30000001") // as it is written, and again
	wantSize(s, agents[0], claims[0][0], "30000001")
	for i, a := range agents {
		for _, v := range a.Inspect().Volumes {
			if v.Owner.UID != string(claims[i][0].UID) && v.Owner.UID != string(claims[i][1].UID) {
				t.Errorf("node %d has the volume %+v", i, v)
			}
		}
		if other := agents[1-i].Log(); strings.Contains(other, harness.PVName(claims[i][0])) {
			t.Errorf("the agent of the other node mentions %s", harness.PVName(claims[i][0]))
		}
	}
}

// What is too much is said with numbers, once, and concerns nobody else; less is good again.
func TestGrowTooMuch(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallNode(s, "01")
	claim, other := s.Create(harness.Claim{Node: a.Node.Name}), s.Create(harness.Claim{Node: a.Node.Name})
	s.Bound(claim)
	s.Bound(other)
	ask(s, claim, "1Ti")
	patterns := []string{a.Node.Name, `to 1Ti\b`, fmt.Sprintf(`\bincrease %d\b`, int64(1<<40-10<<20)),
		fmt.Sprintf(`\btotal %d\b`, metric(s, a, "kubevirt_hpp_pool_total_bytes"))}
	s.Eventually("refusal", func() error {
		return saysWhy(s, claim, corev1.PersistentVolumeClaimControllerResizeInfeasible, patterns...)
	})
	s.AwaitWarning(a, claim.UID, reasonResizeFailed, patterns...)
	if refused, err := a.Metric("kubevirt_hpp_resizes_total", `result="no_space"`); err != nil || refused < 1 {
		t.Errorf("%v refusals were counted, want one at least; %v", refused, err)
	}
	ask(s, other, "20Mi")
	wantSize(s, a, other, "20Mi")
	if got := s.Read(claim).Status.Capacity.Storage(); got.Value() != 10<<20 {
		t.Errorf("the claim has %s", got)
	}
	if err := a.MetricIs(30<<20, "kubevirt_hpp_pool_allocated_bytes"); err != nil {
		t.Error(err)
	}

	version := s.Read(claim).ResourceVersion
	ask(s, other, "21Mi") // behind what the agent had to do for the claim
	wantSize(s, a, other, "21Mi")
	s.Idle(a)
	s.Once("nothing is written in vain", func() error {
		if now := s.Read(claim).ResourceVersion; now != version {
			return fmt.Errorf("version %s, was %s", now, version)
		}
		return nil
	})
	ask(s, claim, "11Mi")
	wantSize(s, a, claim, "11Mi")
	warnedThenResized(s, claim)
}

// Where the class says no, the API server does.
func TestGrowNotAllowed(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	class := s.Class("fixed", func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = nil })
	claim := s.Create(harness.Claim{Class: class, Node: a.Node.Name})
	s.Bound(claim)
	err := patchClaim(s, claim, `{"spec":{"resources":{"requests":{"storage":"20Mi"}}}}`)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "must support resize") {
		t.Errorf("got %v, want the API server's refusal", err)
	}
}

// Many that grow at once get no more than there is, all of them together.
func TestGrowOfManyAtOnce(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallNode(s, "01")
	const many, fit = 20, 7
	room := metric(s, a, "kubevirt_hpp_pool_available_bytes")
	more := (room - many<<20) / fit
	claims := make([]*corev1.PersistentVolumeClaim, many)
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() { claims[i] = s.Create(harness.Claim{Node: a.Node.Name, Size: "1Mi"}) })
	}
	wg.Wait()
	for _, c := range claims {
		s.Bound(c)
	}
	more -= 1 << 20 // what the directories themselves take
	for _, c := range claims {
		wg.Go(func() { ask(s, c, bytes(1<<20+more)) })
	}
	wg.Wait()
	s.Eventually("all answered", func() error {
		grown := 0
		for _, c := range claims {
			now := s.Read(c).Status.Capacity.Storage().Value()
			switch {
			case now == 1<<20+more:
				grown++
			case now != 1<<20:
				return fmt.Errorf("claim %s has %d bytes", c.Name, now)
			default:
				if err := saysWhy(s, c, corev1.PersistentVolumeClaimControllerResizeInfeasible); err != nil {
					return err
				}
			}
		}
		if grown != fit {
			return fmt.Errorf("%d claims grew, %d fit", grown, fit)
		}
		return a.MetricIs(float64(many<<20+fit*more), "kubevirt_hpp_pool_allocated_bytes")
	})
	if allocated := metric(s, a, "kubevirt_hpp_pool_allocated_bytes"); allocated > room {
		t.Errorf("%d bytes allocated, there were %d", allocated, room)
	}
}

// Where the kernel holds a volume to its size, it holds it to the new one.
func TestGrowRaisesTheLimit(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	s.Disk("btrfs", diskSize).Mount(node.Pool)
	a := s.Agent(node, harness.Options{Flags: []string{"--enable-btrfs-quota"}})
	claim := s.Create(harness.Claim{Node: node.Name})
	s.Bound(claim)
	file := filepath.Join(node.Pool, harness.PVName(claim), "data")
	write := func() error {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, 20<<20))
		return errors.Join(err, f.Sync(), f.Close())
	}
	if err := write(); !errors.Is(err, syscall.EDQUOT) {
		t.Fatalf("20Mi written into 10Mi: %v", err)
	}
	ask(s, claim, "40Mi")
	wantSize(s, a, claim, "40Mi")
	if err := write(); err != nil {
		t.Errorf("20Mi written into 40Mi: %v", err)
	}
}
