package suite

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// operatorRole is what the operator asked for in the tests of this run.
var operatorRole = roleUse{verbs: map[string]bool{}}

// operatorTests are the tests in which the operator, all together, uses each of its permissions.
var operatorTests = []string{"TestNodeGone", "TestOperator", "TestOperatorTakesOver", "TestPoolTemplate"}

// notUsed is what the operator may and does not ask for in these tests, and why.
var notUsed = map[string]string{
	"update hostpathprovisioner.kubevirt.io/hostpathprovisioners/finalizers": "an admission plugin that is off here asks for it",
}

// roleUse collects, over tests that each have a control plane, what an account asked for.
type roleUse struct {
	mu    sync.Mutex
	tests []string
	verbs map[string]bool // as asked returns them
}

// note adds what the operator asked for in a test, and fails if the API server refused any of it.
// The last of operatorTests also fails for what the operator may do and none of them needed, unless
// rows were left out.
func (u *roleUse) note(s *harness.Scene, log string) {
	s.Helper()
	allowed, refused := asked(s, log, harness.OperatorAccount)
	for what := range refused {
		s.Errorf("the operator may not %s", what)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	test, _, _ := strings.Cut(s.TB.Name(), "/")
	u.tests = append(u.tests, test)
	maps.Copy(u.verbs, allowed)
	if err := u.unused(); err != nil && !testing.Short() && !s.Failed() {
		s.Error(err)
	}
}

// unused returns an error if the operator may do what it did not do, and does not grant to others
// either: the API server lets it grant only what it may do. It returns nil until all the tests have
// run. The caller holds the lock.
func (u *roleUse) unused() error {
	if slices.Sort(u.tests); !slices.Equal(u.tests, operatorTests) {
		return nil
	}
	may, err := verbsOf("manifests/operator/rbac.yaml")
	grants, grantsErr := verbsOf("controller/operator/install/agent.yaml", "manifests/monitoring/rbac.yaml", "manifests/examples/migrate/rbac.yaml",
		"manifests/components/metrics-auth/rbac.yaml")
	if err := errors.Join(err, grantsErr); err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(may)), func(what string) bool {
		verb, of, _ := strings.Cut(what, " ")
		switch {
		case verb == "list" && u.verbs["watch "+of]: // asked for before each watch where the API server streams no lists
		case verb == "create" && u.verbs["patch "+of]: // an apply that makes the object; the log has the patch alone
		default:
			return u.verbs[what] || grants[what] || notUsed[what] != ""
		}
		return true
	})
	if len(left) > 0 {
		return fmt.Errorf("the operator may %q and does not: remove it from manifests/operator/rbac.yaml", left)
	}
	return nil
}

// verbsOf returns what the roles in files allow, in the words of asked, but for names.
func verbsOf(files ...string) (map[string]bool, error) {
	all := map[string]bool{}
	for _, name := range files {
		file, err := os.Open("../../" + name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		for d := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
			var role struct{ Rules []rbacv1.PolicyRule }
			if err := d.Decode(&role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			for _, r := range role.Rules {
				r.ResourceNames = nil
				maps.Copy(all, permitted(r))
			}
		}
	}
	return all, nil
}
