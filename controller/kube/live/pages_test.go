package live_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

var large = strings.Repeat("y", 5<<20)

// largeList serves a list of claims of these sizes as the API server does: a list with
// resourceVersion 0 ignores the limit.
type largeList struct {
	sizes []int

	mu     sync.Mutex // an answer may be under way when the next request comes
	limits []int      // of the requests; guarded by mu
	most   int        // written to one client; guarded by mu
}

func (l *largeList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	from, limit := 0, len(l.sizes)
	_, _ = fmt.Sscan(q.Get("continue"), &from)
	if q.Get("resourceVersion") != "0" {
		_, _ = fmt.Sscan(q.Get("limit"), &limit)
	}
	l.mu.Lock()
	l.limits = append(l.limits, limit)
	l.mu.Unlock()
	to, written := min(len(l.sizes), from+limit), 0
	fmt.Fprint(w, `{"kind":"PersistentVolumeClaimList","apiVersion":"v1","metadata":{"resourceVersion":"9"`)
	if to < len(l.sizes) {
		fmt.Fprintf(w, `,"continue":"%d"`, to)
	}
	fmt.Fprint(w, `},"items":[`)
	for i := from; i < to; i++ {
		if i > from {
			fmt.Fprint(w, ",")
		}
		n, err := fmt.Fprintf(w, `{"metadata":{"name":"%d","annotations":{"x":"%s"}}}`, i, large[:l.sizes[i]])
		written += n
		l.mu.Lock()
		l.most = max(l.most, written)
		l.mu.Unlock()
		if err != nil {
			return // the client has read enough
		}
	}
	fmt.Fprint(w, `]}`)
}

// Any user can create claims, so pages of large ones have few of them, and pages of small ones
// many. Each claim is passed once, one that is larger than a page too.
func TestPagesAreBounded(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	many := func(n, size int) []int { return slices.Repeat([]int{size}, n) }
	for name, row := range map[string]struct {
		sizes    []int
		requests int // at most
		limit    int // of the last request
	}{
		"small":                {many(1200, 100), 3, 500},
		"large":                {many(120, 250*kib), 22, 7},
		"large after small":    {append(many(600, 100), many(60, 250*kib)...), 16, 14},
		"small after large":    {append(many(60, 250*kib), many(3000, 100)...), 24, 500},
		"larger than any page": {[]int{100, 5 * mib, 100}, 8, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := &largeList{sizes: row.sizes}
			api := httptest.NewServer(server)
			t.Cleanup(api.Close)
			seen := 0
			version, err := live.ListClaims(t.Context(), kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL}), func(c *corev1.PersistentVolumeClaim) bool {
				if c.Name != fmt.Sprint(seen) || len(c.Annotations["x"]) != row.sizes[seen] {
					t.Errorf("claim %s in place of %d", c.Name, seen)
				}
				seen++
				return true
			})
			if seen != len(row.sizes) || version != "9" || err != nil {
				t.Errorf("%d of %d claims, version %q, %v", seen, len(row.sizes), version, err)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			if len(server.limits) > row.requests || server.limits[len(server.limits)-1] != row.limit {
				t.Errorf("%d requests, at most %d are enough; their limits: %d", len(server.limits), row.requests, server.limits)
			}
			// Beside what the client reads, the buffers of both sockets.
			if server.most > 16*mib {
				t.Errorf("the client read up to %d MiB of one answer", server.most/mib)
			}
		})
	}
}
