package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// settings are the values that decide what runs, each with those that are tried, in YAML. The first is the
// default. In the namespace "other" the release is in another one.
var settings = []struct {
	name   string
	values []string
}{
	{"form", []string{"form: csi", "form: legacy", "form: both", "form: local-path", "form: single-node", "form: operator", "form: none"}},
	{"namespace", []string{"", "other"}},
	{"pools", []string{"", "pools: [{name: local, path: /data}]", "pools: [{name: local, path: /var/hpvolumes/disk/csi, mount: /var/hpvolumes/disk/}, {name: fast, path: /mnt/fast/csi}]"}},
	{"pvDir", []string{"", "pvDir: /data/volumes/", "{pvDir: /mnt/disk/volumes, pvDirMount: /mnt/disk}"}},
	{"namingPrefix", []string{"", "namingPrefix: true"}},
	{"localPathConfig", []string{"", `localPathConfig: '{"nodePathMap":[{"node":"DEFAULT_PATH_FOR_NON_LISTED_NODES","paths":["/srv/local-path","/opt/local-path-provisioner/deep"]}]}'`}},
	{"kubelet", []string{"", "kubelet: {preset: k0s}", "kubelet: {directory: /k/kubelet/}", "kubelet: {preset: talos}"}},
	{"openshift", []string{"", "openshift: true"}},
	{"quotas.hostPath", []string{"", "quotas: {hostPath: true}"}},
	{"quotas.btrfs", []string{"", "quotas: {btrfs: true}"}},
	{"space", []string{"", `{reserve: 10Gi, overcommit: "2"}`}},
	{"migrate", []string{"", "migrate: {toCSI: plan, from: [hostpath]}"}},
	{"env", []string{"", "env: {HPP_PURGE_RATE: 10000000, GOMEMLIMIT: 100MiB}"}},
	{"disks", []string{"", "disks: {enabled: true}", "disks: {enabled: true, configMaps: {mine: {storageClassName: local-storage, volumeMode: Filesystem, fsType: xfs, mountOptions: noatime, deviceDir: /dev/disk/by-id, deviceNameFilter: ^wwn, wipe: quick}}}"}},
	{"policy", []string{"", "policy: {enabled: true}", `policy: {enabled: true, config: {node-01: "a,b", DEVICES: "/dev/.*"}}`}},
	{"monitoring", []string{"", "monitoring: {enabled: true}"}},
	{"metricsAuth", []string{"", "metricsAuth: true"}},
	{"networkPolicy", []string{"", "networkPolicy: true"}},
	{"without", []string{"", "{priorityQuota: false, removalCheck: false}"}},
}

// row has the index of a value for each setting.
type row []int

// merge adds the values of b to a.
func merge(a, b map[string]any) {
	for key, value := range b {
		if have, both := a[key].(map[string]any); both {
			if more, is := value.(map[string]any); is {
				merge(have, more)
				continue
			}
		}
		a[key] = value
	}
}

// values returns the namespace and the values of a row.
func (r row) values(t *testing.T) (namespace string, all map[string]any) {
	t.Helper()
	namespace, all = "hostpath-provisioner", map[string]any{"image": map[string]any{"repository": "registry.example.com/hpp"}}
	for i, v := range r {
		text := settings[i].values[v]
		if settings[i].name == "namespace" {
			if text != "" {
				namespace = text
			}
			continue
		}
		one := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		merge(all, one)
	}
	return namespace, all
}

func (r row) String() string {
	var all []string
	for i, v := range r {
		if v > 0 || i == 0 {
			all = append(all, strings.Trim(settings[i].values[v], "{}"))
		}
	}
	return strings.Join(all, ", ")
}

// render renders a row, and returns what is wrong with what it renders. refused is why the chart refuses
// it; "" if it does not. keep is the directory in which accepted renders are kept, "" for none.
func (r row) render(t *testing.T, keep string) (refused string, wrong []string) {
	t.Helper()
	namespace, values := r.values(t)
	data, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := helm(t, "template", "storage", chart, "--namespace="+namespace, "--values="+file)
	if err != nil {
		return out, nil
	}
	if keep != "" {
		sum := sha256.Sum256([]byte(r.String()))
		if err := os.WriteFile(filepath.Join(keep, hex.EncodeToString(sum[:8])+".yaml"), []byte("# "+r.String()+"\n---\n"+out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "", judged(t, out, namespace, values)
}

// pair is two values of two settings.
type pair struct{ i, v, j, w int }

func (p pair) row() row {
	r := make(row, len(settings))
	r[p.i], r[p.j] = p.v, p.w
	return r
}

// Each pair of values stands in a render that is accepted and works, or is refused with words that name a
// value of it: whether it is alone or not. Values that a form refuses are in no other render of it.
func TestEveryPairOfValues(t *testing.T) {
	refusals, renderedTo := alone(t), t.TempDir()
	left := map[pair]bool{}
	for i := range settings {
		for j := i + 1; j < len(settings); j++ {
			for v := range settings[i].values {
				for w := range settings[j].values {
					left[pair{i, v, j, w}] = true
				}
			}
		}
	}
	renders, refused, all := 0, 0, len(left)
	for len(left) > 0 {
		p := slices.MinFunc(slices.Collect(maps.Keys(left)), func(a, b pair) int { return slices.Compare([]int{a.i, a.v, a.j, a.w}, []int{b.i, b.v, b.j, b.w}) })
		form := formFor(p, refusals)
		if form < 0 { // each form refuses one of them by itself
			delete(left, p)
			refused++
			continue
		}
		r := filled(p, form, left, refusals)
		renders++
		why, wrong := r.render(t, renderedTo)
		if why != "" { // another pair of the row may be the reason
			r = p.row()
			if p.i != 0 {
				r[0] = form
			}
			renders++
			if why, wrong = r.render(t, renderedTo); why != "" {
				if named := strings.Split(settings[p.i].name, ".")[0]; !strings.Contains(why, named) && !strings.Contains(why, strings.Split(settings[p.j].name, ".")[0]) {
					t.Errorf("%s: refused without a name: %s", r, why)
				}
				delete(left, p)
				refused++
				continue
			}
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", r, w)
		}
		for q := range left {
			if r[q.i] == q.v && r[q.j] == q.w {
				delete(left, q)
			}
		}
		if renders > 600 {
			t.Fatalf("%d renders, and %d pairs are left", renders, len(left))
		}
	}
	t.Logf("%d pairs, of which %d are refused, in %d renders", all, refused, renders)
	parsed(t, renderedTo)
}

// alone renders each value alone in each form, and returns which are refused: [form][setting][value].
func alone(t *testing.T) map[[3]int]bool {
	t.Helper()
	refused := map[[3]int]bool{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan bool, 3)
	for form := range settings[0].values {
		for i := 1; i < len(settings); i++ {
			for v := 1; v < len(settings[i].values); v++ {
				wait.Go(func() {
					slots <- true
					defer func() { <-slots }()
					why, _ := pair{0, form, i, v}.row().render(t, "")
					mu.Lock()
					defer mu.Unlock()
					if refused[[3]int{form, i, v}] = why != ""; why != "" && !strings.Contains(why, strings.Split(settings[i].name, ".")[0]) && settings[i].name != "space" {
						t.Errorf("%s: refused without its name: %s", pair{0, form, i, v}.row(), why)
					}
				})
			}
		}
	}
	wait.Wait()
	return refused
}

// formFor returns a form that refuses neither value of a pair, -1 if there is none.
func formFor(p pair, refused map[[3]int]bool) int {
	for form := range settings[0].values {
		if p.i == 0 && p.v != form {
			continue
		}
		if !refused[[3]int{form, p.i, p.v}] && !refused[[3]int{form, p.j, p.w}] {
			return form
		}
	}
	return -1
}

// filled returns a row with the pair, in which each other setting has the value that makes the most pairs
// which are left.
func filled(p pair, form int, left map[pair]bool, refused map[[3]int]bool) row {
	r := p.row()
	set := map[int]bool{0: true, p.i: true, p.j: true}
	r[0] = form
	for k := range settings {
		if set[k] {
			continue
		}
		best, most := 0, -1
		for v := range settings[k].values {
			if refused[[3]int{form, k, v}] {
				continue
			}
			n := 0
			for other := range set {
				q := pair{other, r[other], k, v}
				if other > k {
					q = pair{k, v, other, r[other]}
				}
				if left[q] {
					n++
				}
			}
			if n > most {
				best, most = v, n
			}
		}
		r[k], set[k] = best, true
	}
	return r
}
