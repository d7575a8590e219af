package monitor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientrecord "k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/health"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// newWatched returns the monitor of two pools without directories, and its events.
func newWatched(t *testing.T) (*VolumeMonitor, *clientrecord.FakeRecorder) {
	t.Helper()
	var all []*volume.Pool
	for _, name := range []string{"fast", "slow"} {
		p, err := volume.New(volume.Config{Name: name, Path: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	pools, err := volume.NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	events := clientrecord.NewFakeRecorder(100)
	events.IncludeObject = true
	return NewVolumeMonitor(pools, events, "node-01"), events
}

func heard(events *clientrecord.FakeRecorder) (all []string) {
	for {
		select {
		case e := <-events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func volumeWith(p health.Problem) health.Health {
	h := health.Health{Problem: p, Record: record.Record{Name: "pvc-1", Owner: record.Owner{Namespace: "ns", Name: "data", UID: "1"}}}
	if p != "" {
		h.Message = "because of " + string(p)
	}
	return h
}

func TestChangesAreSaidOnce(t *testing.T) {
	const (
		full, gone = "Warning FilesystemFull", "Warning DirectoryMissing"
		well       = "Normal"
	)
	// A check is a letter: f and d for a problem, w for none, - for not
	// published.
	for checks, want := range map[string][]string{
		"www":             nil,
		"f":               {full},
		"fff":             {full},
		"wff":             {full},
		"fd":              {full, gone},
		"fwwww":           {full},
		"fwwwww":          {full, well},
		"fwwwwwwwwwwww":   {full, well},
		"fwwfwwwfwwwwf":   {full},
		"fwfwwwww":        {full, well},
		"fwwwwwf":         {full, well, full},
		"f-w":             {full},
		"f-wwwwwww":       {full},
		"f-f":             {full, full},
		"--":              nil,
		"fwdwwwwwfwfffff": {full, gone, well, full},
	} {
		v, events := newWatched(t)
		for _, check := range checks {
			var all []health.Health
			switch check {
			case 'f':
				all = append(all, volumeWith(health.Full))
			case 'd':
				all = append(all, volumeWith(health.NoDirectory))
			case 'w':
				all = append(all, volumeWith(""))
			}
			v.pools[0].compare(klog.Background(), all)
		}
		var got []string
		for _, e := range heard(events) {
			kind, _, _ := strings.Cut(e, " ")
			if _, why, abnormal := strings.Cut(e, "because of "); abnormal {
				kind += " " + strings.Fields(why)[0]
			}
			got = append(got, kind)
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: %q, want %q", checks, got, want)
		}
	}
}

func TestWhoIsTold(t *testing.T) {
	claim, pod := volumeWith(health.Full), volumeWith(health.Full)
	pod.Name, pod.Ephemeral = "csi-2", true
	const text = "volume %s on node node-01: because of FilesystemFull"
	for name, row := range map[string]struct {
		spoil func(*health.Health)
		want  string
	}{
		"claim":  {func(*health.Health) {}, "Warning VolumeConditionAbnormal " + fmt.Sprintf(text, "pvc-1") + " involvedObject{kind=PersistentVolumeClaim,apiVersion=v1}"},
		"pod":    {func(h *health.Health) { *h = pod }, "Warning VolumeConditionAbnormal " + fmt.Sprintf(text, "csi-2") + " involvedObject{kind=Pod,apiVersion=v1}"},
		"no UID": {func(h *health.Health) { h.Owner.UID = "" }, ""},
		// A sidecar without extra metadata: the UID is in the volume's name.
		"no name":      {func(h *health.Health) { h.Owner.Name = "" }, ""},
		"no namespace": {func(h *health.Health) { h.Owner.Namespace = "" }, ""},
	} {
		v, events := newWatched(t)
		h := claim
		row.spoil(&h)
		v.pools[0].compare(klog.Background(), []health.Health{h})
		if got := strings.Join(heard(events), "\n"); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	if ref := ownerReference(claim.Record); ref.Namespace != "ns" || ref.Name != "data" || ref.UID != "1" {
		t.Errorf("%+v", ref)
	}
}

func TestVolumeMetrics(t *testing.T) {
	v, _ := newWatched(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(v)
	scrape := func() string {
		w := httptest.NewRecorder()
		httpserver.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		var lines []string
		for line := range strings.Lines(w.Body.String()) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	if got := scrape(); got != "" {
		t.Errorf("before the first check:\n%s", got)
	}
	pod := volumeWith(health.NoDirectory)
	pod.Name, pod.Owner.Name, pod.Ephemeral = "csi-2", "db", true
	well := volumeWith("")
	well.Name = "pvc-3"
	v.pools[0].checked, v.pools[0].last = true, []health.Health{volumeWith(health.Full), pod, well}
	v.pools[1].checked = true
	want := `kubevirt_hpp_pool_published_volumes{pool="fast"} 3
kubevirt_hpp_pool_published_volumes{pool="slow"} 0
kubevirt_hpp_volume_abnormal{namespace="ns",persistentvolumeclaim="",pool="fast",reason="DirectoryMissing",volume="csi-2"} 1
kubevirt_hpp_volume_abnormal{namespace="ns",persistentvolumeclaim="data",pool="fast",reason="FilesystemFull",volume="pvc-1"} 1
`
	if got := scrape(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
