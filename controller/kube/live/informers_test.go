package live_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// watchers are the functions and methods that make informers, of client-go and controller-runtime. `For` and
// `Watches` are methods of others, too.
var watchers = []string{"NewSharedInformer", "NewSharedIndexInformer", "NewSharedInformerFactory", "NewSharedInformerFactoryWithOptions",
	"NewInformer", "NewInformerWithOptions", "NewIndexerInformer", "NewReflector", "NewNamedReflector", "NewReflectorWithOptions",
	"NewDynamicSharedInformerFactory", "NewFilteredDynamicSharedInformerFactory", "GetInformer", "GetInformerForKind", "Informer", "Lister",
	"For", "Owns", "Watches", "WatchesMetadata", "Kind", "informers.New", "cache.New"}

// others are methods of those names that make no informer, by the name of what they are called on.
var others = []string{"sleep", "watched", "ast"}

// informersOf are all informers of all processes, by what bounds them. A read of a cache that has no informer of the
// kind makes one, so reads of the operator's cache count if the kind has no bound. An informer without a kind gets it from
// its caller.
var informersOf = map[string][]string{
	"claims of this node alone, listed in pages and kept slim":                     {"agent/claims/claims.go NewSharedIndexInformer PersistentVolumeClaim"},
	"PVs of this node alone, listed in pages":                                      {"agent/pvs/watch.go informers.New PersistentVolume"},
	"one of the two above, or of classes":                                          {"agent/provision/library.go Informer", "agent/start.go Informer"},
	"makes what its callers, which are here, ask for":                              {"agent/informers/informers.go NewSharedIndexInformer"},
	"classes, and the capacity objects of this node":                               {"agent/capacity/classes.go NewSharedIndexInformer"},
	"Deployments and pods of one name or namespace, listed in pages and kept slim": {"agent/localpath/original.go NewSharedIndexInformer"},
	"one Node, the PVs of a node, and the namespace of the agents": {"disks/watch.go NewSharedInformerFactoryWithOptions",
		"disks/watch.go Informer Nodes", "disks/watch.go Informer PersistentVolumes", "disks/watch.go Informer ConfigMaps"},
	"the operator's cache, whose kinds are here": {"operator/claims.go NewSharedIndexInformer", "operator/manager.go cache.New"},
	"claims of all namespaces, listed in pages and kept slim": {"operator/manager.go Watches PersistentVolumeClaim",
		"operator/claimpools/claims.go Get PersistentVolumeClaim", "operator/claimpools/claims.go List PersistentVolumeClaimList", "operator/nodegone/act.go Get PersistentVolumeClaim",
		"operator/waiting/reconcile.go For PersistentVolumeClaim", "operator/waiting/reconcile.go Get PersistentVolumeClaim",
		"operator/waiting/reconcile.go List PersistentVolumeClaimList", "operator/waiting/copies.go Get PersistentVolumeClaim"},
	"PVs of all drivers, listed in pages and kept slim": {"operator/admission/admission.go List PersistentVolumeList",
		"operator/claimpools/release/volume.go Get PersistentVolume", "operator/diskpvs/reconcile.go Watches PersistentVolume",
		"operator/diskpvs/reconcile.go List PersistentVolumeList", "operator/nodegone/home.go List PersistentVolumeList",
		"operator/nodegone/reconcile.go List PersistentVolumeList", "operator/waiting/volumes.go For PersistentVolume",
		"operator/waiting/volumes.go Get PersistentVolume", "operator/waiting/copies.go Get PersistentVolume"},
	"PVs and capacity objects, as above and below": {"operator/nodegone/reconcile.go Watches"},
	"pods with the agents' label in the namespace of the operator, where no tenant creates any": {"operator/manager.go Watches Pod",
		"operator/nodegone/reconcile.go Watches Pod", "operator/former/leftout.go List PodList", "operator/install/agents.go List PodList", "operator/waiting/act.go List PodList"},
	"one object": {"operator/manager.go Watches ConfigMap", "operator/layout/tune.go Get ConfigMap", "operator/manager.go Watches Secret"},
	"what the operator applies, in its namespace or with its label": {"operator/manager.go Watches", "operator/manager.go Watches Job"},
	"the capacity objects in the namespace of the operator":         {"operator/manager.go Watches CSIStorageCapacity", "operator/templatenodes/reconcile.go Watches CSIStorageCapacity"},
	"metadata of Nodes":                {"operator/diskpvs/reconcile.go WatchesMetadata Node", "operator/nodegone/reconcile.go WatchesMetadata Node"},
	"a kind that administrators write": {"operator/manager.go Watches HostPathProvisioner", "operator/templatenodes/reconcile.go Watches HostPathProvisioner", "operator/templatenodes/reconcile.go Watches StorageClass", "operator/waiting/reconcile.go Watches StorageClass"},
	"kinds of Prometheus and of OpenShift, in one namespace, and their resource": {"operator/optional/optional.go GetInformer", "operator/optional/optional.go cache.New"},
}

// Each informer is named above, with its bound: it keeps what it watches for as long as the process runs.
func TestInformersAreNamed(t *testing.T) {
	named, found := map[string]bool{}, map[string]bool{}
	for _, keys := range informersOf {
		for _, key := range keys {
			named[key] = true
		}
	}
	for _, top := range []string{"agent", "disks", "poolholder", "kube", "operator", "plugin"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			for _, d := range f.Decls {
				for _, what := range watched(d, top == "operator") {
					key := name + " " + what
					if found[key] = true; !named[key] {
						t.Errorf("%s: an informer that is not in the table, %q", set.Position(d.Pos()), key)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key := range named {
		if !found[key] {
			t.Errorf("there is no informer %q any more", key)
		}
	}
	for text, want := range map[string]string{
		`package p; func f() { b.Watches(&corev1.Pod{}, h) }`:                            "Watches Pod",
		`package p; func f() { var all corev1.PodList; r.Cache.List(ctx, &all) }`:        "List PodList",
		`package p; func f() { o := &corev1.Secret{}; r.Client.Get(ctx, key, o) }`:       "Get Secret",
		`package p; func f() { o := &corev1.Secret{}; r.Live.Get(ctx, key, o) }`:         "",
		`package p; func f() { o := &storagev1.StorageClass{}; r.Cache.Get(ctx, k, o) }`: "",
		`package p; func f() { all.Core().V1().Pods().Lister() }`:                        "Lister Pods",
		`package p; func f() { sleep.For(ctx, time.Second) }`:                            "",
		`package p; func f() { source.Kind(cache, &corev1.Pod{}) }`:                      "Kind Pod",
		`package p; func f() { if v.Kind() == 0 {} }`:                                    "",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
		if err != nil || strings.Join(watched(f, true), ", ") != want {
			t.Errorf("%s: %q, %v", text, watched(f, true), err)
		}
	}
}

// watched returns the informers that a declaration makes: the function, and the kind.
func watched(d ast.Node, cached bool) (all []string) {
	kinds := map[string]string{} // of variables
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for _, name := range n.Names {
				kinds[name.Name] = kindOf(n.Type, nil)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if name, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && kindOf(n.Rhs[i], nil) != "" {
					kinds[name.Name] = kindOf(n.Rhs[i], nil)
				}
			}
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			on := last(method.X)
			call := method.Sel.Name
			if call == "New" {
				call = on + ".New"
			}
			reads := cached && (call == "Get" || call == "List") && slices.Contains([]string{"Cache", "Client", "cached"}, on)
			asks := call == "Kind" && len(n.Args) == 0 // a value for its kind
			if !reads && (!slices.Contains(watchers, call) || slices.Contains(others, on) || asks) {
				return true
			}
			kind := ""
			if of, ok := method.X.(*ast.CallExpr); ok && (call == "Informer" || call == "Lister") {
				kind = last(of.Fun)
			}
			for _, arg := range n.Args {
				if k := kindOf(arg, kinds); k != "" && kind == "" {
					kind = k
				}
			}
			if reads && !slices.Contains(unbounded, strings.TrimSuffix(kind, "List")+"s") {
				return true
			}
			all = append(all, strings.TrimSpace(call+" "+kind))
		}
		return true
	})
	return all
}

// kindOf returns the name of the type of an object, "" if it is none of Kubernetes.
func kindOf(e ast.Expr, variables map[string]string) string {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		return kindOf(e.X, variables)
	case *ast.CompositeLit:
		return kindOf(e.Type, nil)
	case *ast.StarExpr:
		return kindOf(e.X, nil)
	case *ast.Ident:
		return variables[e.Name]
	case *ast.SelectorExpr:
		if on := last(e.X); strings.HasSuffix(on, "v1") || strings.HasSuffix(on, "v1beta1") {
			return e.Sel.Name
		}
	}
	return ""
}

// last returns the last name of an expression such as a.b.c.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return last(e.Fun)
	}
	return ""
}
