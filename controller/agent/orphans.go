package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

type orphanOptions struct {
	remove bool
	grace  time.Duration
}

func (a *Agent) newOrphans() (err error) {
	if a.driverOnly() {
		return nil
	}
	a.orphans, err = orphans.New(orphans.Config{
		Client: a.client, Pools: a.pools, PVs: a.pvs, Events: a.recorder, Node: events.Node(a.nodeName),
		Delete: a.Options.orphans.remove, Grace: a.Options.orphans.grace, Changed: a.changed,
	})
	return err
}

// Paths of the health port for the command orphans. Only the agent's own container may use them.
const (
	OrphansPath         = "/orphans"          // GET: []orphans.Orphan
	OrphansRestoredPath = "/orphans/restored" // POST orphans.Wanted: orphans.Objects
	OrphansRemovePath   = "/orphans/remove"   // POST orphans.Named: nothing
)

// answerWithin is how long the agent works on a request of the command. It is shorter than the
// server's write timeout.
const answerWithin = 12 * time.Second

// maxRequest bounds the body of such a request.
const maxRequest = 64 << 10

// Orphans is what WithOrphans needs of the check for orphans.
type Orphans interface {
	List(context.Context) ([]orphans.Orphan, error)
	Restored(context.Context, orphans.Wanted, orphans.Restorer) (orphans.Objects, error)
	Remove(context.Context, orphans.Named) error
}

// WithOrphans adds the paths of the command orphans to the handler of the health port. A failed
// request has the reason in its body: with code 503 a retry may succeed, with 409 it does not until
// something else changes.
func WithOrphans(checker Orphans, from orphans.Restorer, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET "+OrphansPath, func(w http.ResponseWriter, r *http.Request) {
		answerOrphans(w, r, func(ctx context.Context) (any, error) { return checker.List(ctx) })
	})
	mux.HandleFunc("POST "+OrphansRestoredPath, func(w http.ResponseWriter, r *http.Request) {
		answerNamed(w, r, func(ctx context.Context, n orphans.Wanted) (any, error) { return checker.Restored(ctx, n, from) })
	})
	mux.HandleFunc("POST "+OrphansRemovePath, func(w http.ResponseWriter, r *http.Request) {
		answerNamed(w, r, func(ctx context.Context, n orphans.Named) (any, error) {
			return struct{}{}, checker.Remove(ctx, n)
		})
	})
	return mux
}

// answerNamed reads the volume that the request names, and answers.
func answerNamed[T any](w http.ResponseWriter, r *http.Request, do func(context.Context, T) (any, error)) {
	answerOrphans(w, r, func(ctx context.Context) (any, error) {
		var n T
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&n); err != nil {
			return nil, err
		}
		return do(ctx, n)
	})
}

func answerOrphans(w http.ResponseWriter, r *http.Request, do func(context.Context) (any, error)) {
	if !ofThisPod(r) {
		http.Error(w, "from this pod only: use the agent's commands in its container", http.StatusForbidden)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	answer, err := do(ctx)
	switch {
	case errors.Is(err, volume.ErrNotReady):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		klog.FromContext(r.Context()).V(2).Info("Cannot answer about orphans", "err", err)
	}
}

// ofThisPod reports whether a request comes from the agent's own network namespace.
func ofThisPod(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}
