package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/migrate"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

type migrateOptions struct {
	mode   settings.MigrateMode
	others []contract.Dialect // whose PVs are migrated, too
	used   bool
}

// check validates the flags. The agent serves the claims of the given dialects and, with csi, those
// of the CSI driver. The PVs of a served dialect are migrated without being named by
// --migrate-from.
func (m *migrateOptions) check(served []contract.Dialect, csi bool) error {
	if m.mode != settings.MigrateOff && (len(served) == 0 || !csi) {
		return fmt.Errorf("--migrate-to-csi=%s (MIGRATE_TO_CSI) needs one process that serves both kinds of claims, "+
			"from pools among which is PV_DIR: set --provision=hostpath,csi (PROVISION) and --endpoint, as "+
			"manifests/examples/both-modes does", m.mode)
	}
	m.others = slices.DeleteFunc(m.others, func(other contract.Dialect) bool {
		return slices.ContainsFunc(served, func(d contract.Dialect) bool { return d.Provisioner == other.Provisioner })
	})
	if m.mode == settings.MigrateOff {
		m.others = nil // they would only be read
	}
	return nil
}

// newMigrator builds the migrator, also if nothing is to be migrated: it finishes migrations that
// an earlier process began, perhaps one that served another backend too.
func (a *Agent) newMigrator() (err error) {
	if a.driverOnly() {
		return nil
	}
	m := &a.migrate
	a.migrator, err = migrate.New(migrate.Config{
		Client: a.client, Node: a.nodeName, Pools: a.pools, Driver: a.Options.driver.name, PVs: a.pvs, Events: a.recorder,
		Mode: m.mode, Used: m.used, Step: a.outside.Step,
	})
	return err
}

// MigrationPath is the path of the plan on the health port. Only the agent's own container may read
// it, because it names claims of all namespaces.
const MigrationPath = "/migration"

// WithPlan adds the plan to the handler of the health port. plan is nil if nothing can be migrated.
func WithPlan(plan func() migrate.Report, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != MigrationPath || plan == nil {
			next.ServeHTTP(w, r)
			return
		}
		if !ofThisPod(r) {
			http.Error(w, "from this pod only: kubectl exec ... -- /hostpath-provisioner migrate", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(plan()); err != nil {
			klog.FromContext(r.Context()).V(2).Info("Cannot show the plan", "err", err)
		}
	})
}
