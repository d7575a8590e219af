package suite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The API server may come after the agent, and may go while the agent works. This test has a
// control plane of its own.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	own := ownPlane(t)
	s := own.Scene(t)
	a := s.Later(s.Node("01"), harness.Options{})
	if err := own.Plane.StopAPIServer(); err != nil {
		t.Fatal(err)
	}

	a.Restart()
	a.AwaitUnready("connection refused")
	stays(s, a)
	if err := harness.Missing(a.Pool); err != nil {
		t.Errorf("a pool was founded before it is known what PVs say of it: %v", err)
	}
	startAPIServer(s)
	a.AwaitReady()
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	s.Bound(claim)

	if err := own.Plane.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	stays(s, a)
	startAPIServer(s)
	after := s.Create(harness.Claim{Node: a.Node.Name})
	s.Eventually("PV saved", func() error {
		if s.IsGone(harness.PVName(after)) == nil {
			return errors.New("there is none yet")
		}
		return nil
	})
	s.Eventually("claim bound", func() error { return s.IsBound(after) })
	s.Delete(claim)
	s.Eventually("PV gone", func() error { return s.IsGone(harness.PVName(claim)) })
}

// ownPlane is an Env with a control plane for one test alone, whose API server has these flags
// besides.
func ownPlane(t *testing.T, flags ...string) *harness.Env {
	t.Helper()
	own := env.Another(keptDir(t), flags...)
	t.Cleanup(func() {
		if err := own.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	if err := own.StartPlane(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	return own
}

// keptDir returns a new directory beside the suite's logs, which are kept after a failure.
func keptDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(env.Dir, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func startAPIServer(s *harness.Scene) {
	s.Helper()
	if err := s.Plane.StartAPIServer(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// stays checks that the agent goes on and answers, after requests that the API server did not
// answer: at least two of them began when it was away.
func stays(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	failed := unanswered(s, a)
	enough := func() error {
		if now := unanswered(s, a); now < failed+3 {
			return fmt.Errorf("%v requests got no answer since, want 3", now-failed)
		}
		return nil
	}
	s.Until("agent alive", enough, func() error {
		if !a.Alive() {
			return errors.New("it has ended")
		}
		_, _, err := a.Get("/healthz")
		return err
	})
}

// unanswered returns how many requests of the agent the API server did not answer.
func unanswered(s *harness.Scene, a *harness.Agent) (sum float64) {
	s.Helper()
	_, body, err := a.Get("/metrics")
	if err != nil {
		s.Fatal(err)
	}
	for _, method := range []string{"GET", "POST", "PATCH", "PUT", "DELETE"} {
		n, err := harness.MetricIn(body, "rest_client_requests_total", `code="<error>"`, fmt.Sprintf("method=%q", method))
		if err == nil { // there may be none
			sum += n
		}
	}
	return sum
}
