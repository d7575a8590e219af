package agent

import (
	"context"
	"net/http"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"
)

// Paths of the health port for the command trash. Only the agent's own container may use them.
const (
	TrashPath         = "/trash"          // GET: []recovery.Kept, without IDs
	TrashPlanPath     = "/trash/plan"     // POST recovery.Request: what becomes of the volume
	TrashUndeletePath = "/trash/undelete" // POST recovery.Request: recovery.Undeleted
	TrashRemovePath   = "/trash/remove"   // POST orphans.Named: nothing
)

// Trash is what WithTrash needs of the deleted volumes of a node.
type Trash interface {
	List(context.Context) ([]kuberecovery.Kept, error)
	Plan(context.Context, recovery.Request) (kuberecovery.Volume, error)
	Undelete(context.Context, recovery.Request) (recovery.Undeleted, error)
	Remove(context.Context, orphans.Named) error
}

// WithTrash adds the paths of the command trash to the handler of the health port. Failed requests are
// answered as those of WithOrphans.
func WithTrash(trash Trash, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET "+TrashPath, func(w http.ResponseWriter, r *http.Request) {
		answerOrphans(w, r, func(ctx context.Context) (any, error) {
			all, err := trash.List(ctx)
			// Where the agent has the node's network, each user of the node can ask. A request for a volume has
			// its ID, which proves that the caller can read the disk.
			for i := range all {
				all[i].ID = ""
			}
			return all, err
		})
	})
	post := func(path string, do func(context.Context, recovery.Request) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { answerNamed(w, r, do) })
	}
	post(TrashPlanPath, func(ctx context.Context, of recovery.Request) (any, error) { return trash.Plan(ctx, of) })
	post(TrashUndeletePath, func(ctx context.Context, of recovery.Request) (any, error) { return trash.Undelete(ctx, of) })
	post(TrashRemovePath, func(ctx context.Context, of recovery.Request) (any, error) {
		return struct{}{}, trash.Remove(ctx, of.Named)
	})
	return mux
}

// Undeleter has the deleted volumes that the agent's pools keep. The agent must see PVs.
func (a *Agent) Undeleter() *recovery.Undeleter {
	return &recovery.Undeleter{Planner: a.Recovery(), Events: a.recorder, Node: events.Node(a.nodeName), Changed: a.changed}
}
