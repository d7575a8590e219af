package suite

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// resourceDefinition is the definition of HostPathProvisioner, as it is applied.
const resourceDefinition = "../../manifests/operator/hostpathprovisioner.kubevirt.io_hostpathprovisioners.yaml"

// pools is a spec with these pools, NAME=PATH.
func pools(all ...string) map[string]any {
	list := []any{}
	for _, p := range all {
		name, path, _ := strings.Cut(p, "=")
		list = append(list, map[string]any{"name": name, "path": path})
	}
	return map[string]any{"storagePools": list}
}

// template is a template node, with labels KEY=VALUE.
func template(name, pool string, capacity any, labels ...string) map[string]any {
	t := map[string]any{"name": name, "pool": pool, "capacity": capacity}
	selector := map[string]any{}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		selector[key] = value
	}
	if len(selector) > 0 {
		t["nodeSelector"] = selector
	}
	return t
}

// templated is a spec with the pools a and b, and with template nodes.
func templated(all ...any) map[string]any {
	return with(pools("a=/srv/a", "b=/srv/b"), "templateNodes", all)
}

// with returns the spec with another key.
func with(spec map[string]any, key string, value any) map[string]any {
	spec = maps.Clone(spec)
	spec[key] = value
	return spec
}

// refusedSpecs are the specs that the API server refuses, with its words.
var refusedSpecs = map[string]struct {
	spec  map[string]any
	words string
}{
	"neither":              {map[string]any{}, "exactly one of pathConfig and storagePools"},
	"no pools":             {pools(), "exactly one of pathConfig and storagePools"},
	"both":                 {with(pools("local=/a"), "pathConfig", map[string]any{"path": "/b"}), "exactly one of pathConfig and storagePools"},
	"no path in config":    {map[string]any{"pathConfig": map[string]any{}}, "pathConfig.path: Required"},
	"empty path in config": {map[string]any{"pathConfig": map[string]any{"path": ""}}, "at least 1 char"},
	"relative config":      {map[string]any{"pathConfig": map[string]any{"path": "var/x"}}, "must be absolute"},
	"system config":        {map[string]any{"pathConfig": map[string]any{"path": "/var/lib"}}, "operating system"},
	"blank name":           {pools("=/a"), "storagePools\\[0\\].name.*at least 1 char"},
	"spaces as name":       {pools("  =/a"), "lower case letters"},
	"upper case":           {pools("Bad_Name=/a"), "lower case letters"},
	"ends with a dash":     {pools("a-=/a"), "lower case letters"},
	"long name":            {pools(strings.Repeat("a", 51) + "=/a"), "may not be more than 50"},
	"same name":            {pools("a=/a", "a=/b"), "Duplicate value"},
	"blank path":           {pools("a="), "storagePools\\[0\\].path.*at least 1 char"},
	"long path":            {pools("a=/" + strings.Repeat("a", 255)), "may not be more than 255"},
	"same path":            {pools("a=/a", "b=/a"), "a path of its own"},
	"relative path":        {pools("a=srv/a"), "must be absolute"},
	"slash at the end":     {pools("a=/srv/a/"), "must be absolute"},
	"dots":                 {pools("a=/srv/../etc2"), "must be absolute"},
	"dot":                  {pools("a=/srv/."), "must be absolute"},
	"two slashes":          {pools("a=//srv"), "must be absolute"},
	"root":                 {pools("a=/"), "operating system"},
	"system directory":     {pools("a=/etc"), "operating system"},
	"in a system one":      {pools("a=/usr/share/a"), "operating system"},
	"the kubelet's":        {pools("a=/var/lib/kubelet/pools"), "operating system"},
	"the socket's":         {pools("a=/csi"), "agent's container"},
	"the program's":        {pools("a=/hostpath-provisioner"), "agent's container"},
	"the socket's, config": {map[string]any{"pathConfig": map[string]any{"path": "/csi/x"}}, "agent's container"},
	"nested":               {pools("a=/srv/a", "b=/srv/a/b"), "in another pool"},
	"nested, outer last":   {pools("b=/srv/a/b", "a=/srv/a"), "in another pool"},
	"pull policy":          {with(pools("a=/a"), "imagePullPolicy", "Sometimes"), "supported values: \"\", \"Always\", \"IfNotPresent\", \"Never\""},
	"metrics":              {with(pools("a=/a"), "metricsAuth", "Token"), "supported values: \"\", \"none\", \"token\""},
	"provider": {map[string]any{"storagePools": []any{map[string]any{"name": "a", "path": "/a", "snapshotProvider": "lvm"}}},
		"supported values: \"\", \"reflink\""},
	"template node of no pool":        {templated(template("t", "other", "1Gi")), "must be one of storagePools"},
	"template node of pools, in path": {with(map[string]any{"pathConfig": map[string]any{"path": "/srv/a"}}, "templateNodes", []any{template("t", "local", "1Gi")}), "or legacy with pathConfig"},
	"template node, no size":          {templated(template("t", "a", "0")), "must be more than 0"},
	"template node, size 0 as number": {templated(template("t", "a", 0)), "must be more than 0"},
	"template node, 0 in other words": {templated(template("t", "a", "0e3")), "must be more than 0"},
	"template node, 0Gi":              {templated(template("t", "a", "0.0Gi")), "must be more than 0"},
	"template node, negative":         {templated(template("t", "a", "-1Gi")), "must be more than 0"},
	"template node, not a size":       {templated(template("t", "a", "much")), "capacity"},
	"template node without a size":    {templated(map[string]any{"name": "t", "pool": "a"}), "capacity: Required"},
	"template node without a pool":    {templated(map[string]any{"name": "t", "capacity": "1Gi"}), "pool: Required"},
	"template node with a bad name":   {templated(template("T_1", "a", "1Gi")), "lower case letters"},
	"template nodes of one name":      {templated(template("t", "a", "1Gi", "x=1"), template("t", "a", "2Gi", "x=2")), "Duplicate value"},
	"template nodes without labels":   {templated(template("t", "a", "1Gi"), template("u", "a", "2Gi", "x=2")), "each needs a nodeSelector"},
	"template nodes with no labels":   {templated(template("t", "a", "1Gi"), template("u", "a", "2Gi")), "each needs a nodeSelector"},
	"template nodes with the same":    {templated(template("t", "a", "1Gi", "x=1"), template("u", "a", "2Gi", "x=1")), "need different nodeSelectors"},
	"template node of one node":       {templated(template("t", "a", "1Gi", "topology.hostpath.csi/node=node-01")), "must not name a node"},
	"template node of one host":       {templated(template("t", "a", "1Gi", "kubernetes.io/hostname=node-01")), "must not name a node"},
	"template node, bad value":        {templated(template("t", "a", "1Gi", "x=a b")), "nodeSelector.x"},
	"gate twice":                      {with(pools("a=/a"), "featureGates", []any{"Snapshotting", "Snapshotting"}), "Duplicate value"},
}

// acceptedSpecs are specs that look like refused ones, or have everything.
var acceptedSpecs = map[string]map[string]any{
	"pool":         pools("local=/var/hpvolumes"),
	"neighbours":   pools("a=/srv/a", "ab=/srv/ab", "a-b=/srv/a.b", "c=/srv/...", "d=/srv/.d"),
	"below shared": pools("a=/home/pool", "b=/var/lib/pool", "c=/tmp/x", "d=/var/lib/kubelet2", "e=/libs"),
	"template nodes": templated(template("big", "a", "2Ti", "node.kubernetes.io/instance-type=i4i.8xlarge"),
		template("small", "a", 1000000000, "node.kubernetes.io/instance-type=i4i.large", "x="), template("archive", "b", "1.5Ti")),
	"template of the path": with(map[string]any{"pathConfig": map[string]any{"path": "/srv/a"}}, "templateNodes", []any{template("t", "legacy", "1Gi")}),
	"longest":              pools(strings.Repeat("a", 50) + "=/" + strings.Repeat("a", 254)),
	"path":                 {"pathConfig": map[string]any{"path": "/var/hpvolumes", "useNamingPrefix": true}},
	"everything": {
		"imagePullPolicy": "", "metricsAuth": "token", "featureGates": []any{"Snapshotting", "Unknown"},
		"workload": map[string]any{"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"operator": "Exists"}}},
		"storagePools": []any{map[string]any{"name": "a", "path": "/a", "snapshotProvider": "reflink", "overlayClassName": "x",
			"pvcTemplate": map[string]any{"accessModes": []any{"ReadWriteMany"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}},
	},
}

// Every rule that one object shows is the API server's, with words that say what to do.
func TestOperatorAPI(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	client := resources(s)
	loosely(s)
	old := map[string]*unstructured.Unstructured{}
	for name, spec := range map[string]map[string]any{
		"pools": pools("Old_Name=/srv/old/", "inner=/srv/old2/x", "outer=/srv/old2", "system=/etc/pool"),
		"path":  {"pathConfig": map[string]any{"path": "/etc/hpvolumes/"}},
	} {
		made, err := client.Create(s.Context(), installation(s.Name+"-"+name, spec), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		old[name] = made
	}
	define(s)
	s.Eventually("the definition with its rules served", func() error { // for a moment the API server has the one before
		_, err := client.Create(s.Context(), installation(s.Name+"-x", map[string]any{}), metav1.CreateOptions{DryRun: dry})
		if err == nil {
			return errors.New("a resource without pools is accepted")
		}
		return nil
	})
	for name, row := range refusedSpecs {
		_, err := client.Create(s.Context(), installation(s.Name+"-x", row.spec), metav1.CreateOptions{DryRun: dry})
		if err == nil || !regexp.MustCompile(row.words).MatchString(err.Error()) {
			t.Errorf("%s: %v, want words like %q", name, err, row.words)
		}
	}
	for name, spec := range acceptedSpecs {
		made, err := client.Create(s.Context(), installation(s.Name+"-x", spec), metav1.CreateOptions{DryRun: dry})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if policy, _, _ := unstructured.NestedString(made.Object, "spec", "imagePullPolicy"); spec["imagePullPolicy"] == nil && policy != "IfNotPresent" {
			t.Errorf("%s: pull policy %q, want the default", name, policy)
		}
	}
	ratchets(s, client, old)
	t.Run("rendered", func(t *testing.T) { rendered(t, s) })
	t.Run("TestCRDExplainable", func(t *testing.T) { explains(t, s) })
}

// ratchets changes resources that were created before the rules.
func ratchets(s *harness.Scene, client dynamic.ResourceInterface, old map[string]*unstructured.Unstructured) {
	s.Helper()
	existing := []string{"Old_Name=/srv/old/", "inner=/srv/old2/x", "outer=/srv/old2", "system=/etc/pool"}
	for name, row := range map[string]struct {
		of, words string
		spec      map[string]any
	}{
		"another pool":        {of: "pools", spec: pools(slices.Concat(existing[:1], existing[3:], []string{"new=/srv/new"})...)},
		"workload":            {of: "pools", spec: with(pools(existing...), "workload", map[string]any{"nodeSelector": map[string]any{"a": "b"}})},
		"a new bad name":      {of: "pools", spec: pools(slices.Concat(existing, []string{"New_Name=/srv/new"})...), words: "lower case letters"},
		"a new bad path":      {of: "pools", spec: pools(slices.Concat(existing, []string{"new=/srv/new/"})...), words: "must be absolute"},
		"a new system path":   {of: "pools", spec: pools(slices.Concat(existing, []string{"new=/etc/new"})...), words: "operating system"},
		"a new nested path":   {of: "pools", spec: pools(slices.Concat(existing, []string{"new=/srv/old2/y"})...), words: "in another pool"},
		"prefix beside path":  {of: "path", spec: map[string]any{"pathConfig": map[string]any{"path": "/etc/hpvolumes/", "useNamingPrefix": true}}},
		"another system path": {of: "path", spec: map[string]any{"pathConfig": map[string]any{"path": "/etc/other"}}, words: "operating system"},
	} {
		changed := old[row.of].DeepCopy()
		changed.Object["spec"] = row.spec
		_, err := client.Update(s.Context(), changed, metav1.UpdateOptions{DryRun: dry})
		if row.words == "" && err != nil || row.words != "" && (err == nil || !strings.Contains(err.Error(), row.words)) {
			s.Errorf("%s: %v, want words %q", name, err, row.words)
		}
	}
	for name, o := range old { // whatever the rules say, a finalizer comes and goes
		for _, finalizers := range [][]string{{"example.com/test"}, nil} {
			o.SetFinalizers(finalizers)
			var err error
			if o, err = client.Update(s.Context(), o, metav1.UpdateOptions{}); err != nil {
				s.Fatalf("%s: %v", name, err)
			}
		}
		if err := client.Delete(s.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			s.Errorf("%s: %v", name, err)
		}
	}
}

// rendered compares the objects in the operator with their source.
func rendered(t *testing.T, s *harness.Scene) {
	want, err := exec.Command(s.Plane.Binaries().Path("kubectl"), "kustomize", "../../manifests/operator/agent").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../controller/operator/install/agent.yaml")
	if err != nil || string(got) != string(want) {
		t.Errorf("controller/operator/install/agent.yaml is not manifests/operator/agent (%v): go generate ./controller/operator/install", err)
	}
}

// explains compares the texts with those of the older operator's definition, word for word.
func explains(t *testing.T, s *harness.Scene) {
	for field, words := range map[string][]string{
		"":                        {"HostPathProvisioner is the Schema for the hostpathprovisioners API"},
		".spec":                   {"HostPathProvisionerSpec defines the desired state of HostPathProvisioner", "pathConfig", "storagePools", "workload", "featureGates", "imagePullPolicy"},
		".status":                 {"HostPathProvisionerStatus defines the observed state of HostPathProvisioner"},
		".status.conditions":      {"Conditions contains the current conditions observed by the operator", "lastHeartbeatTime"},
		".status.observedVersion": {"ObservedVersion The observed version of the HostPathProvisioner deployment"},
		".status.operatorVersion": {"OperatorVersion The version of the HostPathProvisioner Operator"},
		".status.targetVersion":   {"TargetVersion The targeted version of the HostPathProvisioner deployment"},
	} {
		out, err := exec.Command(s.Plane.Binaries().Path("kubectl"), "--kubeconfig", s.Plane.Kubeconfig(), "explain", "hostpathprovisioner"+field).CombinedOutput()
		if err := wants(err, strings.Join(strings.Fields(string(out)), " "), words); err != nil {
			t.Error(err)
		}
	}
}

// installation is a HostPathProvisioner.
func installation(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "hostpathprovisioner.kubevirt.io/v1beta1", "kind": "HostPathProvisioner",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// resources is a client of HostPathProvisioners.
func resources(s *harness.Scene) dynamic.ResourceInterface {
	s.Helper()
	return objects(s, "hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners")
}

// define applies the definition and waits until it is served.
func define(s *harness.Scene) {
	s.Helper()
	defineAs(s, resourceDefinition)
}

// loosely applies the definition without its rules.
func loosely(s *harness.Scene) {
	s.Helper()
	text, err := os.ReadFile(resourceDefinition)
	if err != nil {
		s.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		s.Fatal(err)
	}
	strip(object)
	if text, err = yaml.Marshal(object); err != nil {
		s.Fatal(err)
	}
	file := s.Path("operator", "loose.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.Fatal(err)
	}
	defineAs(s, file)
}

// strip removes the rules of a schema.
func strip(value any) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "x-kubernetes-validations")
		for _, inner := range v {
			strip(inner)
		}
	case []any:
		for _, inner := range v {
			strip(inner)
		}
	}
}
