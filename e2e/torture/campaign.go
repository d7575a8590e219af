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

// Config is the configuration of a campaign. All fields but Migrate are required.
type Config struct {
	// For is the time for which tenants work and processes are killed, without settling.
	For time.Duration
	// Seed determines the actions.
	Seed uint64
	// Tenants is the number of tenants that work in parallel, each with its own volumes.
	Tenants int
	// Migrate lets tenants have their PVs replaced by CSI PVs, and back, while the API server
	// refuses new PVs at times.
	Migrate bool
	// Settle is the time after which findings count.
	Settle time.Duration
	// Out receives a line every few seconds, and the findings.
	Out io.Writer
}

// campaign is one run.
type campaign struct {
	*harness.Scene
	Config
	nodes   []*node
	kinds   []kind
	tenants []*tenant

	operations, kills, undeleted, copied atomic.Int64
	moves                                int64 // see countMoves

	mu        sync.Mutex
	lastFault string
	found     findings
}

// Run runs a campaign in an environment that it uses alone, and removes everything except the
// environment. The journal of the campaign is beside the agents' logs, in Env.Dir; so is the last
// observation if there are findings.
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
		c.countMoves()
	})
	v.Findings = c.found
	v.Operations, v.Kills, v.Moves = c.operations.Load(), c.kills.Load(), c.moves
	v.Undeleted, v.Copied = c.undeleted.Load(), c.copied.Load()
	if ctx.Err() != nil {
		return v, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return v, nil
}

// setUp creates the nodes and the classes.
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

// random returns the random numbers of one tenant or node.
func (c *campaign) random(number uint64) *rand.Rand { return rand.New(rand.NewPCG(c.Seed, number)) }

// rage lets tenants work and causes faults for the configured time. When it returns, all agents and
// the API server run, and nothing is refused.
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
	if c.Migrate {
		wg.Go(func() { c.refusePVs(ctx, c.random(3000)) })
	}
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
			fmt.Fprintf(c.Out, "%7s  operations %d  kills %d  volumes %d  last fault: %s\n",
				time.Since(begin).Round(time.Second),
				c.operations.Load(), c.kills.Load(), c.volumes(), c.said())
		}
	}
}

// volumes returns the number of volumes in the pools.
func (c *campaign) volumes() (n int) {
	for _, node := range c.nodes {
		for _, p := range node.pools {
			names, _ := children(p.path, reserved...) // a pool that cannot be read counts as empty
			n += len(names)
		}
	}
	return n
}

// fault records the last fault for the progress line.
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

// pause sleeps. It returns false if the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// between returns a random duration between the two.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)+1))
}
