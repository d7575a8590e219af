package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// volumeFilter are the flags that choose volumes.
type volumeFilter struct {
	node, pool, class    string
	unused, withoutQuota bool
	all                  bool // of all namespaces
}

func (s *session) volumesCommand() *cobra.Command {
	f := volumeFilter{}
	c := &cobra.Command{
		Use:     "volumes",
		Aliases: []string{"volume", "vols"},
		Short:   "List volumes with their use, the largest first",
		Long: "volumes lists volumes with what they use of their quotas, the one with the most use first. Volumes without\n" +
			"a claim are listed with -A.\n\n" +
			"Permissions: list persistentvolumes, nodes, csistoragecapacities, and pods and events of all namespaces;\n" +
			"list persistentvolumeclaims and pods in the namespace. Use and quotas need create pods/exec in the agents'\n" +
			"namespace; without it they are unknown.",
		Example: "  kubectl hpp volumes -n shop\n  kubectl hpp volumes -A --node node-01\n" +
			"  kubectl hpp volumes -A --without-quota",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.volumes(c.Context(), f) },
	}
	c.Flags().StringVar(&f.node, "node", "", "list the volumes of this node only")
	c.Flags().StringVar(&f.pool, "pool", "", "list the volumes of pools of this name only")
	c.Flags().StringVar(&f.class, "class", "", "list the volumes of this storage class only")
	c.Flags().BoolVar(&f.unused, "unused", false, "list volumes that no pod uses")
	c.Flags().BoolVar(&f.withoutQuota, "without-quota", false, "list volumes on which the kernel enforces no quota")
	c.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "list volumes of all namespaces")
	return c
}

func (s *session) volumes(ctx context.Context, f volumeFilter) error {
	if err := s.connect("wide", "name"); err != nil {
		return err
	}
	namespace := s.namespaced(f.all)
	stock, nodes := s.stock(ctx, namespace, f.unused || s.style.Wide || s.isData())
	switch {
	case f.unused && !stock.Pods.Known():
		return errors.New("--unused: unknown: " + stock.Pods.Unknown)
	case f.withoutQuota && stock.NoPools != "":
		return errors.New("--without-quota: unknown: " + stock.NoPools)
	}
	l := List[fleet.Volume]{Unknown: stockUnknowns(stock), Missing: missing(nodes, &stock.Facts)}
	for _, v := range fleet.Volumes(stock) {
		if f.accepts(&v, namespace) {
			l.Items = append(l.Items, v)
		}
	}
	l.Missing = slices.DeleteFunc(l.Missing, func(m Missing) bool { return f.node != "" && m.Node != f.node })
	none := "no volumes in namespace " + namespace + "; -A lists those of all namespaces"
	if f.all {
		none = "there are no such volumes"
	}
	p := printed{table: volumeTable(l.Items, f.all), none: none}
	for _, v := range l.Items {
		if v.PV != "" {
			p.names = append(p.names, "persistentvolume/"+v.PV)
		}
	}
	for _, m := range l.Missing {
		addReason(p.table, m, "NODE", "STATE", "WHY")
	}
	return print(s, l, p)
}

// addReason adds a row for a node of which something is not known.
func addReason(t *view.Table, m Missing, node, state, why string) {
	row := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		switch row[i] = ""; c.Title {
		case node:
			row[i] = m.Node
		case state:
			row[i] = "unknown"
		case why:
			row[i] = m.Why
		}
	}
	t.Add(row...)
}

// accepts reports whether the flags choose a volume. A namespace of "" is all.
func (f *volumeFilter) accepts(v *fleet.Volume, namespace string) bool {
	switch {
	case namespace != "" && v.Namespace != namespace:
	case f.node != "" && v.Node != f.node:
	case f.pool != "" && v.Pool != f.pool:
	case f.class != "" && v.Class != f.class:
	case f.unused && v.Pod != "":
	case f.withoutQuota && (v.Quota == nil || *v.Quota > 0):
	default:
		return true
	}
	return false
}

// volumeTable returns the volumes as a table, with their namespaces if all are listed.
func volumeTable(all []fleet.Volume, namespaces bool) *view.Table {
	columns := view.Columns("NAMESPACE", "CLAIM", "NODE", "POOL", "STATE", "SIZE>", "USED>", "USE", "+CLASS", "+PV",
		"+PATH", "+POD", "?WHY")
	skip := 0
	if !namespaces {
		skip = 1
	}
	t := &view.Table{Columns: columns[skip:]}
	for i := range all {
		v := &all[i]
		used, use := useOf(v)
		row := []any{v.Namespace, v.Claim, v.Node, v.Pool, v.State, contract.Size(v.Size), used, use, v.Class, v.PV,
			v.Path, v.Pod, v.Unknown}
		t.Add(row[skip:]...)
	}
	return t
}

// useOf returns what a volume uses, and of which share of its quota that is.
func useOf(v *fleet.Volume) (used, use string) {
	switch {
	case v.Quota == nil:
		return "unknown", ""
	case v.Used == nil:
		return "unknown", "no quota"
	}
	return contract.Size(*v.Used), fmt.Sprint(view.Bar(*v.Used, *v.Quota))
}
