package agent

import (
	"context"
	"net/http"

	"kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	kuberecovery "kubevirt.io/hostpath-provisioner/controller/kube/recovery"
)

// RecoverPath of the health port is for the command recover: POST recovery.Request, answered by what
// becomes of the volume. Only the agent's own container may use it.
const RecoverPath = "/recover"

// Recovery is what WithRecovery needs of the plan.
type Recovery interface {
	Volume(context.Context, recovery.Request) (kuberecovery.Volume, error)
}

// WithRecovery adds the path of the command recover to the handler of the health port. Failed requests
// are answered as those of WithOrphans.
func WithRecovery(planner Recovery, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("POST "+RecoverPath, func(w http.ResponseWriter, r *http.Request) {
		answerNamed(w, r, func(ctx context.Context, of recovery.Request) (any, error) { return planner.Volume(ctx, of) })
	})
	return mux
}

// Recovery plans how the volumes of the agent's pools are recovered. The agent must see PVs.
func (a *Agent) Recovery() *recovery.Planner {
	return &recovery.Planner{Client: a.client, Pools: a.pools, PVs: a.pvs, Driver: a.Options.driver.name}
}
