// Command torture runs a campaign of kills against the agent, and reports whether anything was
// lost, leaked or created twice. Its exit code is then 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
	"kubevirt.io/hostpath-provisioner/e2e/torture"
)

func main() {
	minutes := flag.Float64("minutes", 5, "how long tenants work and processes are killed, without the time to settle")
	seed := flag.Uint64("seed", 0, "determines the actions; 0 chooses one")
	tenants := flag.Int("tenants", 8, "number of tenants that work in parallel, each with up to five living claims")
	settle := flag.Duration("settle", 5*time.Minute, "time after which findings count")
	race := flag.Bool("race", true, "build the agents with the race detector")
	divide := flag.Int("divide-times", 1, "by what the times are divided after which agents try or check again")
	migrate := flag.Bool("migrate", false, "replace PVs by CSI PVs and back, while new PVs are refused at times")
	verbose := flag.Bool("v", false, "log how the control plane starts")
	flag.Parse()
	if flag.NArg() > 0 || *minutes <= 0 || *tenants < 1 || *settle <= 0 || *divide < 1 {
		fmt.Fprintln(os.Stderr, "torture: flags only, and all above zero; -help lists them")
		os.Exit(2)
	}
	if code, done := harness.Privately(); done {
		os.Exit(code)
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, *verbose, harness.Settings{Race: *race, DivideTimes: *divide}, torture.Config{
		For: time.Duration(*minutes * float64(time.Minute)), Seed: *seed, Tenants: *tenants, Migrate: *migrate,
		Settle: *settle, Out: os.Stdout,
	})
	stop()
	os.Exit(code)
}

// run returns the exit code. The verdict is the last line.
func run(ctx context.Context, verbose bool, settings harness.Settings, config torture.Config) int {
	log := io.Discard
	if verbose {
		log = os.Stderr
	}
	fmt.Printf("seed %d, %s; building the agent and starting a control plane\n", config.Seed, config.For)
	env, err := settings.Start(ctx, log)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	v, err := torture.Run(ctx, env, config)
	for _, f := range v.Findings {
		fmt.Println(f)
	}
	for _, t := range v.Trouble {
		fmt.Println("trouble:", t)
	}
	bad := err != nil || !v.Clean()
	if bad {
		flags := ""
		if config.Migrate {
			flags = " TORTURE_FLAGS=--migrate"
		}
		fmt.Printf("again with the same seed: make torture SEED=%d%s\n", config.Seed, flags)
	}
	if stopped := env.Stop(bad && ctx.Err() == nil); stopped != nil || err != nil {
		fmt.Fprintln(os.Stderr, "torture:", errors.Join(err, stopped))
		bad = true
	}
	if err == nil {
		fmt.Println(v)
	}
	if bad {
		return 1
	}
	return 0
}
