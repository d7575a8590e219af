package simulation_test

import (
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

// TestWords runs words that failed once, because of the product or of the simulation. No rule is broken by
// them today. The step "left" is one that does not fit any more.
func TestWords(t *testing.T) {
	c := &child{t: t}
	defer c.end()
	for name, row := range map[string]struct{ words, left string }{
		"a deleted volume is kept since its deletion": {words: "agent restart node-01 --trash-retention=2h; claim c1 node-01 a-release 1Mi; " +
			"wait 1m; manager late 15s; delete claim c1; wait 1h; wait 90m"},
		"a command that asks whether the node was one of this cluster": {words: "foreign c1 a-release none; wait 10m; obey c1", left: "obey c1"},
		"a pool that is removed before its claims are bound": {words: "install a=/a b=/b+claim; wait 2m; resource a=/a b=/z+claim c=/c+claim; " +
			"resource a=/a b=/b+claim"},
		"the operator gives its agents their flags": {words: "install a=/a b=/b+claim; wait 2m; claim c2 node-02 a-keep 1Mi; wait 1m; " +
			"migrate node-02 back; delete claim c2", left: "migrate node-02 back"},
		"a claim that is deleted while its PV is replaced": {words: "agent restart node-01 --migrate-to-csi=run; manager late 15s; " +
			"claim c3 node-01 hp 1Mi; wait 1m; delete claim c3"},
		"a PV to be deleted on a node that is to have no agent": {words: "install a=/a b=/b+claim; wait 2m; claim c1 node-01 a-keep 1Mi; wait 1m; " +
			"workload node-01 off; wait 5m; delete claim c1"},
		"a label is overwritten while a disk is away": {words: "install a=/a b=/b; wait 2m; claim c1 node-01 b-release 1Mi; disk away node-01/b; wait 30s; " +
			"pv label c1 node-02"},
		"a machine that is off while the resource is deleted": {words: "install a=/a b=/b+claim; wait 2m; machine off node-02; resource delete force; " +
			"wait 1h5m"},
		"a pool whose Node vanishes leaves its claim": {words: "install a=/a b=/b+claim; wait 2m; node vanish node-02; resource a=/a b=/b"},
		"the next tenant of a namespace, and an undelete": {words: "agent retains node-01 6h; claim c1 node-01 a-keep 1Mi; wait 1m; delete claim c1; wait 1m; " +
			"namespace again; claim again c1; wait 1m; undelete c1", left: "undelete c1"},
		"the next tenant of a namespace, and an undelete that was killed": {words: "agent retains node-01 6h; claim c1 node-01 a-keep 1Mi; wait 1m; " +
			"delete claim c1; wait 1m; undelete killed c1; namespace again; claim again c1; wait 1m; recover; wait 5m"},
		"the next tenant of a namespace, and a recovery that was killed": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; policy c1 Retain; wait 1m; " +
			"delete claim c1; wait 1m; delete pv c1; wait 1m; manager late 1m; recover killed; namespace again; claim again c1; wait 10m"},
		"the former tenant's volume for the next one, as a person says": {words: "agent retains node-01 6h; claim c1 node-01 a-keep 1Mi; wait 1m; " +
			"delete claim c1; wait 1m; namespace again; wait 1m; undelete to c1; wait 5m"},
		"a volume that is deleted again after etcd was restored": {words: "manager late 1m; claim c1 node-01 a-delete 1Mi; " +
			"claim c3 node-01 hp 1Mi; wait 1m; agent kill before step node-01 13; etcd backup; delete claim c1; wait 5m30s; " +
			"etcd restore; wait write 10m; delete claim c1"},
		"two nodes are deleted at once": {words: "claim c1 node-01 a-delete 1Mi; claim c2 node-01 b-delete 1Mi; claim c3 node-01 hp 1Mi; " +
			"claim c4 node-02 a-delete 1Mi; node delete node-02; node delete node-01; rest"},
		"the Nodes of volumes that are given up never return": {words: "install a=/a b=/b+claim; wait 2m; claim c1 node-01 a-delete 1Mi; " +
			"claim c2 node-01 b-delete 1Mi; claim c3 node-02 a-delete 1Mi; claim c4 node-02 b-delete 1Mi; node delete node-02; " +
			"node vanish node-01; rest"},
		"an agent that does not end on a Node that is gone": {words: "install a=/a b=/b+claim c=/c; claim c1 node-01 b-release 1Mi; " +
			"pod hangs node-01; rest; node vanish node-01; wait write 10m"},
		"a pool that gets a volume while it is to leave its claim": {words: "install a=/a b=/b+claim c=/c; wait 2m; " +
			"resource a=/a b=/b c=/c; claim c57 node-02 b-keep 1Mi"},
		"a PV that is deleted has lost the name of its provisioner": {words: "webhook strips annotations; claim c1 node-01 a-keep 1Mi; " +
			"wait 2m; delete pv c1; delete claim c1"},
		"a PV without its label, whose pool another agent has": {words: "claim c2 node-01 b-keep 1Mi; second agent node-01 b; pv strip c2; " +
			"delete claim c2; delete pv c2"},
		"a release that a webhook takes back for ever": {words: "claim c2 node-02 b-release 1Mi; webhook keeps policies; " +
			"node delete node-02; rest"},
		"the claim of a lost node's disk": {words: "install a=/a b=/b+claim c=/c; wait 2m; claim c1 node-01 b-release 1Mi; " +
			"node delete node-01; wait 6m30s; delete disk node-01/b"},
		"a growth that no agent served comes back with its volume": {words: "agent retains node-01 6h; take over c20 node-01 1Pi; wait 5s; " +
			"delete claim c20; undelete c20; migrate node-01 run"},
		"the original of a copy is on a node without an agent": {words: "install a=/a b=/b+claim; wait 2m; claim c3 node-02 a-keep 1Mi; " +
			"workload node-02 off; claim copy c5 c3 node-02"},
		"a pool is given up, and its disk comes back to another agent": {words: "claim c4 node-02 a-keep 1Mi; disk away node-02/a; wait 5s; " +
			"give up pool node-02/a; disk back node-02/a; second agent node-02 a"},
		"an agent runs on without Node and pod": {words: "install a=/a b=/b+claim c=/c; wait 30s; pod hangs node-02; node vanish node-02; rest"},
		"a copy of a volume of another node than its pod's first": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; claim copy c2 c1 node-02; wait 10m; " +
			"delete claim c1; wait 5m; claim copy c3 c2 node-01; wait 5m"},
		"the original of a copy is made again under its name": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; claim copy c2 c1 node-01; delete claim c1; " +
			"claim again c1; wait 10m"},
		"a PV of a former provisioner that was deleted while the Node was gone": {words: "node vanish node-01; take over c7 node-01 8Mi; wait 5m30s; " +
			"delete claim c7"},
		"a copy of a claim whose name another had before, and whose PV is kept": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; policy c1 Retain; " +
			"wait 1m; delete claim c1; wait 1m; claim again c1; wait 1m; claim copy c2 c1 node-01; wait 5m"},
		"the original is deleted and made again while its copy is made": {words: "claim c1 node-01 a-keep 1Mi; wait 5m; claim fill c1; " +
			"claim copy c2 c1 node-02; wait 30s; delete claim c1; claim again c1; wait 10m"},
		"an agent ends while it makes a copy": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; claim fill c1; claim copy c2 c1 node-01; wait 25s; " +
			"agent end node-01; wait 1m; agent start node-01; wait 10m"},
		"an agent is killed while it makes a copy": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; claim fill c1; claim copy c2 c1 node-01; wait 5s; " +
			"agent kill before step node-01 4; wait 10m"},
		"the original grows while no agent makes its copy": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; claim fill c1; claim copy c2 c1 node-01; " +
			"wait 20s; agent end node-01; grow claim c1 2Mi; agent start node-01; wait 10m"},
		"the original is given to another claim while its copy is made": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; policy c1 Retain; claim fill c1; " +
			"claim copy c2 c1 node-01; wait 15s; delete claim c1; wait 1s; give pv c1 c3; wait 3m; claim c1 node-01 a-keep 1Mi; wait 10m"},
		"the original of a copy is deleted once that is made": {words: "claim c1 node-01 a-keep 1Mi; wait 5m; claim copy c2 c1 node-01; wait 5m; " +
			"delete claim c1; wait 10m"},
		"a copy that is larger than any disk": {words: "claim c2 node-01 b-keep 1Mi; claim copy c5 c2 node-01; wait 1s; grow claim c5 1Pi; " +
			"claim copy c6 c5 node-01"},
		"a copy of a copy": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; claim copy c2 c1 node-01; wait 1m; claim copy c3 c2 node-01; wait 10m"},
		"a copy whose claim is deleted while it is made": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; claim fill c1; claim copy c2 c1 node-01; wait 20s; " +
			"delete claim c2; wait 10m"},
		"a webhook refuses the PV of a copy for good": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; webhook refuses csi; claim copy c2 c1 node-01; wait 10m"},
		"a PV that is refused is set to Retain": {words: "agent restart node-01 --orphans=delete --orphan-grace=10m; claim c1 node-01 hp 1Mi; wait 1m; " +
			"pv names c1 node-02; policy c1 Retain; delete claim c1; delete pv c1; wait 1h"},
		"a watch that is behind a policy Retain": {words: "claim c1 node-01 a-keep 1Mi; claim c2 node-01 hp 1Mi; wait 5m; watch late agent/node-01 1m; " +
			"delete claim c1; delete claim c2; wait 5s; policy c1 Retain; policy c2 Retain; wait 10m"},
		"a deletion that is not decided, and Retain": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; deletion stops c1; wait 3h"},
		"a deletion that is not decided, beside a sidecar": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; agent restart node-01 --provision= --pv-dir=; " +
			"deletion stops c1; wait 3h"},
		"a growth that the former provisioner did not serve": {words: "take over c1 node-01 1Pi; wait 10m"},
		"a claim that names no node grows before its PV gets the label": {words: "claim c1 node-01 a-keep 1Mi; wait 1m; policy c1 Retain; " +
			"delete claim c1; wait 1m; give pv c1 c2; wait 2m; agent end node-01; pv strip c2; grow claim c2 2Mi; agent start node-01; wait 10m"},
		"a migration whose policies a webhook puts back": {words: "claim c1 node-01 hp 1Mi; wait 1m; webhook keeps policies; migrate node-01 run; rest"},
		"a migration whose new PV loses its annotations": {words: "claim c1 node-01 hp 1Mi; wait 1m; webhook strips annotations; migrate node-01 run; rest"},
		"the clock of the API server, and a record without the UID of its PV": {words: "claim c1 node-01 hp 1Mi; wait 20m; server clock 45s; " +
			"migrate node-01 run; wait 10m; manager late 1m; delete claim c1; wait 90s; agent older node-01; wait 5m"},
		"a webhook refuses PVs for good": {words: "webhook refuses csi; " + strings.Join([]string{"claim c1 node-01 a-keep 1Mi",
			"claim c2 node-01 a-keep 1Mi", "claim c3 node-01 a-keep 1Mi", "claim c4 node-01 a-keep 1Mi", "claim c5 node-01 a-keep 1Mi",
			"claim c6 node-01 a-keep 1Mi", "claim c7 node-01 a-keep 1Mi", "claim c8 node-01 a-keep 1Mi"}, "; ") + "; wait 2m; rest"},
	} {
		steps := strings.Split(row.words, "; ")
		r := c.run(simulation.Run{Seed: 1, Words: steps})
		if len(r.Violations) > 0 {
			t.Errorf("%s: %+v\n%s", name, r.Violations, strings.Join(r.Trace, "\n"))
		}
		if fit := slices.DeleteFunc(steps, func(step string) bool { return step == row.left }); !slices.Equal(r.Words, fit) {
			t.Errorf("%s: these steps alone were possible: %q", name, r.Words)
		}
	}
}
