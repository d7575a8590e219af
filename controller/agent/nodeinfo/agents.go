package nodeinfo

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

const (
	// agentsFor is for how long a number of agents counts, and how long one that may not be read is
	// not asked for.
	agentsFor = time.Hour
	// agentsAgain is the pause after a request that failed.
	agentsAgain = time.Minute
)

// Agents knows how many agents share the work that no agent does alone. Make it with NewAgents.
type Agents struct {
	client          kubernetes.Interface
	namespace, name string // of the DaemonSet; "" if it is not known

	mu    sync.Mutex
	count int
	next  time.Time // of the next read
}

// NewAgents returns the number of agents of the DaemonSet of a pod: its name without the suffix that
// the DaemonSet's controller gives to its pods.
func NewAgents(client kubernetes.Interface, namespace, pod string) *Agents {
	a := &Agents{client: client, namespace: namespace}
	if i := strings.LastIndexByte(pod, '-'); i > 0 {
		a.name = pod[:i]
	}
	return a
}

// Count returns on how many nodes the DaemonSet wants an agent, 0 if that is not known: an older
// role may not list it, or the pod is of no DaemonSet. It reads the DaemonSet once an hour at most,
// and only when it is asked: a cluster without claims that wait costs no request.
func (a *Agents) Count(ctx context.Context) int {
	count, fresh := a.last()
	if a.name == "" || a.namespace == "" || fresh {
		return count
	}
	// A list, because the operator may list DaemonSets and grants no more than it may do.
	found, err := a.client.AppsV1().DaemonSets(a.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", a.name).String()})
	pause := agentsFor
	switch {
	case apierrors.IsForbidden(err):
		count = 0
	case err != nil:
		pause = agentsAgain
	default:
		count = 0
		for i := range found.Items {
			if found.Items[i].Name == a.name {
				count = int(found.Items[i].Status.DesiredNumberScheduled)
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count, a.next = count, time.Now().Add(pause)
	return count
}

// last returns the number that was read last, and whether it is not to be read again yet.
func (a *Agents) last() (count int, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count, time.Now().Before(a.next)
}
