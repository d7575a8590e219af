// Package suite tests the node agent on a real control plane. Nodes are objects without kubelets,
// agents are processes of this machine, and each has its own pool; every test has its own
// namespace, nodes and agents, so most run in parallel.
//
//	go -C e2e test ./suite            # as root; K8S_VERSION chooses the Kubernetes version
package suite

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// parallel is how many tests run at once unless -parallel says otherwise. They wait most of the
// time, but starts of agents keep two CPUs busy; with more tests at once, waits grow beyond their
// limits.
const parallel = "8"

// env is set before the first test and not changed.
var env *harness.Env

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if code, done := harness.Privately(); done {
		return code
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel) // the flag exists and takes a number
	}
	log := io.Discard
	if testing.Verbose() {
		log = os.Stderr
	}
	var settings harness.Settings
	if testing.Short() {
		settings.DivideTimes = 5
	}
	var err error
	if env, err = settings.Start(context.Background(), log); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := env.Stop(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// built returns a program of env that is built when a test first needs it: env.Faulty or
// env.Racing.
func built(t harness.TB, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// atOnce runs the parts of a test beside each other, and returns when all have ended. Unlike parts
// that call t.Parallel, they do not wait behind every test that has not begun, while the control
// plane of this one keeps a processor busy.
func atOnce(t *testing.T, parts map[string]func(*testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, part := range parts {
		all.Go(func() { t.Run(name, part) })
	}
	all.Wait()
}
