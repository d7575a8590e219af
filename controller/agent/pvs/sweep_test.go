package pvs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// sweeping runs the loop of the sweeps in a bubble of synctest, and returns a function that lets
// time pass and returns how many lists of PVs there were in it.
func sweeping(t *testing.T, p *PVs, c *fake.Clientset) (during func(time.Duration) int) {
	p.Client, p.wake = apitest.Listing(c), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go p.sweepForever(ctx)
	t.Cleanup(func() {
		cancel()
		time.Sleep(2 * time.Hour) // all goroutines end
	})
	return func(d time.Duration) int {
		synctest.Wait()
		c.ClearActions()
		time.Sleep(d)
		synctest.Wait()
		n := 0
		for _, a := range c.Actions() {
			if a.Matches("list", "persistentvolumes") {
				n++
			}
		}
		return n
	}
}

// request requests a sweep every two minutes, as the kubelet does for a pod whose volume is gone.
func request(t *testing.T, p *PVs) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			p.SweepSoon()
			time.Sleep(2 * time.Minute)
		}
	}()
	return cancel
}

// Requests bring a sweep forward, and fewer and fewer of them do if the sweeps find nothing. They
// never delay the sweeps that are due without them.
func TestSweepsAreNotDelayed(t *testing.T) {
	const hours = 10
	for what, row := range map[string]struct {
		others, fails bool
		least, most   int // sweeps in ten hours
	}{
		"PVs of other provisioners":   {others: true, least: hours * 8, most: hours*12 + 1},
		"own PVs alone":               {least: 6, most: 20},
		"the API server does not say": {fails: true, least: hours * 8, most: hours*12 + 1},
	} {
		t.Run(what, func(t *testing.T) {
			p := newPVs(t)
			if row.others {
				p.Others, _ = contract.ParseProvisioners(contract.LocalPathProvisioner)
			}
			synctest.Test(t, func(t *testing.T) {
				c := fake.NewClientset(&corev1.PersistentVolume{})
				if row.fails {
					c.PrependReactor("list", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, nil, errors.New("away")
					})
				}
				during := sweeping(t, p, c)
				stop := request(t, p)
				during(4 * time.Hour)
				if got := during(hours * time.Hour); got < row.least || got > row.most {
					t.Errorf("%d sweeps in ten hours, want %d to %d", got, row.least, row.most)
				}
				stop()
				during(4 * time.Hour)
				p.SweepSoon()
				if got := during(wakePause); got != 1 {
					t.Errorf("%d sweeps on the first request after hours without one, want one at once", got)
				}
			})
		})
	}
}
