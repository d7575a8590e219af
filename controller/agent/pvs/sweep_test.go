package pvs

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
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

// What is labelled is known from the last sweep: a pool that is away for hours, or a PV that is refused
// for good, does not have all PVs of the cluster read again and again.
func TestLabelsCostNoSweeps(t *testing.T) {
	for what, row := range map[string]struct {
		story func(*PVs, *corev1.PersistentVolume)
		most  int
	}{
		"a pool is away": {func(p *PVs, pv *corev1.PersistentVolume) {
			pool, _ := p.Names(pv)
			if err := os.Rename(pool.Path(), pool.Path()+".away"); err != nil {
				t.Fatal(err)
			}
			if pool.Ready() == nil {
				t.Fatal("the pool is ready")
			}
		}, 20},
		"a PV is refused": {func(_ *PVs, pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = "/elsewhere/" + pv.Name }, 20},
	} {
		p := newPVs(t)
		pv := validPV(p, "wait")
		pv.Spec.ClaimRef.UID, pv.Status.Phase = testUID, corev1.VolumeBound
		delete(pv.Labels, contract.LabelNode)
		row.story(p, pv)
		client := fake.NewClientset(pv)
		p.Events = events.New(client, "node-01")
		synctest.Test(t, func(t *testing.T) {
			p.Client = apitest.Listing(client)
			if err := p.Sweep(t.Context()); err != nil || len(*p.unlabelled.Load()) != 1 {
				t.Fatal(err, len(*p.unlabelled.Load()))
			}
			during := sweeping(t, p, client)
			stop := request(t, p)
			during(4 * time.Hour)
			if got := during(10 * time.Hour); got > row.most {
				t.Errorf("%s: %d sweeps in ten hours, want at most %d", what, got, row.most)
			}
			stop()
			during(4 * time.Hour)
		})
	}
}

// Without a request an agent lists the PVs without the node label, and once a day all.
func TestSweepsListWhatHasNoLabel(t *testing.T) {
	p := newPVs(t)
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		during := sweeping(t, p, client)
		during(48 * time.Hour)
		all, selected := 0, 0
		for _, a := range client.Actions() {
			if l, ok := a.(clienttesting.ListAction); !ok || !a.Matches("list", "persistentvolumes") {
				continue
			} else if l.GetListRestrictions().Labels.Empty() {
				all++
			} else {
				selected++
			}
		}
		if all < 1 || all > 2 || selected < 25 {
			t.Errorf("in two days %d lists of all PVs, and %d of those without the label", all, selected)
		}
	})
}

// A PV without the node label that is to be deleted, and whose pool is not ready, is told of: the library
// does not see it, and says nothing.
func TestUnlabelledPVWaitsForItsPool(t *testing.T) {
	for _, released := range []bool{false, true} {
		p := newPVs(t)
		client := fake.NewClientset()
		p.Client, p.Events = client, events.New(client, "node-01")
		out, err := volume.New(volume.Config{Name: "legacy", Path: t.TempDir() + "/missing/out"})
		if err != nil {
			t.Fatal(err)
		}
		if p.Pools, err = volume.NewPools(out); err != nil {
			t.Fatal(err)
		}
		p.backends = []*backend{p.backend(backends.HostPath(p.Node, backends.Served{Dialect: contract.Own(false), Pools: []*volume.Pool{out}}))}
		pv := validPV(p, "wait")
		pv.Spec.HostPath.Path = out.Path() + "/" + pv.Name
		if pv.Status.Phase = corev1.VolumeBound; released {
			pv.Spec.PersistentVolumeReclaimPolicy, pv.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased
		}
		p.unlabelled.Store(&[]corev1.PersistentVolume{*pv})
		if labelled, later := p.label(t.Context()); labelled || !later {
			t.Errorf("released %v: labelled %v, later %v", released, labelled, later)
		}
		told := slices.ContainsFunc(eventsOf(t, client), func(e corev1.Event) bool {
			return e.Reason == events.VolumeFailedDelete && strings.Contains(e.Message, "not ready")
		})
		if told != released {
			t.Errorf("released %v: told %v", released, told)
		}
	}
}

// An agent without the permission to write labels watches all PVs. Once it has the permission, it labels
// those that the watch has shown it since; one that has the label by then is left alone.
func TestLabelOfAPVThatIsWatched(t *testing.T) {
	for _, labelled := range []bool{false, true} {
		p := newPVs(t)
		pv := validPV(p, "wait")
		pv.Status.Phase = corev1.VolumeBound
		delete(pv.Labels, contract.LabelNode)
		if err := os.Mkdir(pv.Spec.HostPath.Path, 0o700); err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(pv)
		p.Client, p.Events = client, events.New(client, "node-01")
		p.unlabelled.Store(&[]corev1.PersistentVolume{*pv})
		now := pv.DeepCopy()
		if labelled {
			now.Labels = map[string]string{contract.LabelNode: "node-01"}
		}
		if err := p.informer.GetStore().Add(now); err != nil {
			t.Fatal(err)
		}
		if wrote, _ := p.label(t.Context()); wrote == labelled {
			t.Errorf("has the label: %v, written: %v; %v", labelled, wrote, eventsOf(t, client))
		}
	}
}
