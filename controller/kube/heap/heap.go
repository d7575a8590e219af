// Package heap bounds what the heap of a process grows to.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

const (
	// large is the live heap, in bytes, from which on memory is worth more than time. A controller with
	// few objects has 3 MiB.
	large = 16 << 20
	// usual and saving are values of GOGC. With usual the heap grows to twice what is live, and with saving
	// to half as much again. A burst of claims then takes a quarter more of a core's time.
	usual, saving = 100, 50

	checkEvery = 2 * time.Second
)

// Bound has a large heap collected earlier, until the context ends, so that a process with thousands of
// objects stays far from the limit of its container. A small heap is left as it is. When the heap becomes
// large, it returns to the kernel what the objects' first list took.
//
// It does nothing if the environment has GOGC.
func Bound(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	for now := usual; sleep.For(ctx, checkEvery); {
		next := percent(live(), now)
		if next == now {
			continue
		}
		debug.SetGCPercent(next)
		if now = next; now == saving {
			debug.FreeOSMemory()
		}
	}
}

// percent returns the value of GOGC for a heap of so many live bytes, of which now is in force. A heap that
// has become small stays bounded until it is half as large: the value does not change to and fro.
func percent(live uint64, now int) int {
	if live >= large || now == saving && live >= large/2 {
		return saving
	}
	return usual
}

// live returns the bytes of the objects that the last collection found in use.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
