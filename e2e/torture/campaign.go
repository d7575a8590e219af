package torture

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Config says how long and how hard. All fields must be set.
type Config struct {
	// For is how long the tenants work and things are killed; settling comes on top.
	For time.Duration
	// Seed decides what is done.
	Seed uint64
	// Tenants work at the same time, each on volumes of its own.
	Tenants int
	// Settle is how long it may take until nothing is left to find.
	Settle time.Duration
	// Out receives a line every few seconds, and what was found.
	Out io.Writer
}

// campaign is one run.
type campaign struct {
	*harness.Scene
	Config
	nodes   []*node
	kinds   []kind
	tenants []*tenant

	operations, kills atomic.Int64

	mu        sync.Mutex
	lastFault string
	found     findings
}

// Run runs a campaign on an environment that nobody else uses, and takes down everything but the environment. The journal
// of what was done lies beside the agents' logs, in Env.Dir; so does what was seen when something was found.
func Run(ctx context.Context, env *harness.Env, config Config) (Verdict, error) {
	logs := filepath.Join(env.Dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return Verdict{}, err
	}
	journal, err := os.Create(filepath.Join(logs, "journal.log"))
	if err != nil {
		return Verdict{}, err
	}
	defer journal.Close()
	c := &campaign{Config: config}
	var v Verdict
	v.Trouble = play(ctx, journal, func(s *stage) {
		c.Scene = env.Scene(s)
		c.setUp()
		c.rage()
		c.audit()
	})
	v.Findings = c.found
	v.Operations, v.Kills = c.operations.Load(), c.kills.Load()
	if ctx.Err() != nil {
		return v, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return v, nil
}

// setUp makes the nodes and the classes.
func (c *campaign) setUp() {
	for i, filesystem := range []string{"ext4", "xfs", "btrfs"} {
		c.nodes = append(c.nodes, c.newNode(fmt.Sprintf("%02d", i+1), filesystem))
	}
	for _, n := range c.nodes {
		n.agent.AwaitReady()
	}
	c.kinds = c.makeKinds()
	for i := range c.Tenants {
		c.tenants = append(c.tenants, &tenant{campaign: c, number: i, rng: c.random(uint64(i))})
	}
	c.fault("none yet")
}

// random is the source of one who acts; no two share a number.
func (c *campaign) random(number uint64) *rand.Rand { return rand.New(rand.NewPCG(c.Seed, number)) }

// rage lets tenants work and faults happen for the time that was asked for. All agents and the API server run when it
// returns.
func (c *campaign) rage() {
	ctx, cancel := context.WithTimeout(c.Context(), c.For)
	defer cancel()
	var wg sync.WaitGroup
	for _, t := range c.tenants {
		wg.Go(func() { t.work(ctx) })
	}
	for i, n := range c.nodes {
		wg.Go(func() { c.torment(ctx, n, c.random(uint64(1000+i))) })
	}
	wg.Go(func() { c.killAPIServer(ctx, c.random(2000)) })
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	c.progress(done)
	if c.Context().Err() != nil {
		c.Fatal("the campaign ended early")
	}
}

// progress prints a line every few seconds until done.
func (c *campaign) progress(done <-chan struct{}) {
	begin := time.Now()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			fmt.Fprintf(c.Out, "%7s  operations %d  kills %d  volumes %d  last fault: %s\n", time.Since(begin).Round(time.Second),
				c.operations.Load(), c.kills.Load(), c.volumes(), c.said())
		}
	}
}

// volumes counts what is in the pools now.
func (c *campaign) volumes() (n int) {
	for _, node := range c.nodes {
		for _, p := range node.pools {
			names, _ := children(p.path, reserved...) // one that cannot be read now counts nothing
			n += len(names)
		}
	}
	return n
}

// fault remembers what was done last to hurt.
func (c *campaign) fault(format string, args ...any) {
	c.mu.Lock()
	c.lastFault = fmt.Sprintf(format, args...)
	c.mu.Unlock()
	c.Logf("fault: "+format, args...)
}

func (c *campaign) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastFault
}

// pause waits; false means that the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// between is a random time from the first to the second.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)+1))
}
