package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestPercentiles(t *testing.T) {
	s := sample{4, 1, 3, 2}
	for name, row := range map[string]struct{ got, want float64 }{
		"median of four":  {s.median(), 2.5},
		"median of three": {sample{9, 1, 5}.median(), 5},
		"p50":             {s.at(50), 2},
		"p99":             {s.at(99), 4},
		"lowest":          {s.at(0), 1},
		"ratio":           {s.by(sample{2, 2, 2, 2}).at(100), 2},
	} {
		if row.got != row.want {
			t.Errorf("%s: %v, want %v", name, row.got, row.want)
		}
	}
	if !math.IsNaN(sample{}.median()) || !math.IsNaN(sample{}.at(50)) {
		t.Error("an empty sample has a number")
	}
}

// The figure own has room on the pools' disk, also with --full.
func TestOwnVolumesFit(t *testing.T) {
	o, err := parseOptions([]string{"--full"})
	if err != nil {
		t.Fatal(err)
	}
	if need := int64(o.owned) * ownBytes; need > diskSize/2 || o.owned < 10000 {
		t.Errorf("%d volumes take %d bytes of %d", o.owned, need, int64(diskSize))
	}
	if q := resource.MustParse(ownSize); q.Value() != ownBytes {
		t.Errorf("%s is %d bytes", ownSize, q.Value())
	}
}

// The lines are those of the library at the verbosity of staged, as the agent prints them.
const libraryLog = `I1121 15:39:38.100000   14986 agent.go:42] "Starting" node="node-01"
I1121 15:39:38.110000   14986 controller.go:1402] "Started" node="node-01" PVC="bench/agent-x7" StorageClass="hostpath-csi"
I1121 15:39:38.112500   14986 controller.go:1487] "Volume is provisioned" node="node-01" PVC="bench/agent-x7" StorageClass="hostpath-csi" PV="pvc-u1"
I1121 15:39:38.112600   14986 volume_store.go:156] "Saving volume" node="node-01" PVC="bench/agent-x7" StorageClass="hostpath-csi" volume="pvc-u1"
I1121 15:39:38.120000   14986 volume_store.go:159] "Volume saved" node="node-01" PVC="bench/agent-x7" StorageClass="hostpath-csi" volume="pvc-u1"
I1121 15:39:38.130000   14986 controller.go:1548] "Started" node="node-01" PV="pvc-u1"
`

func TestStages(t *testing.T) {
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 21, 15, 39, 38, ms*1e6, time.UTC)
	}
	log, err := parseStamps(libraryLog, at(0))
	if err != nil {
		t.Fatal(err)
	}
	known := &life{uid: "u1", name: "agent-x7", created: at(100), seen: at(104), named: at(108), saved: at(121), bound: at(140)}
	got := log.stages(lives{known, {uid: "u2", name: "agent-y8"}})
	want := stages{seen: 8, queued: 2, durable: 2.5, saved: 7.5, bound: 20}
	if len(got) != 1 {
		t.Fatalf("%v, want those of one claim", got)
	}
	for i, v := range got[0].values() {
		if math.Abs(v-want.values()[i]) > 1e-6 {
			t.Errorf("until %s: %v ms, want %v", stageTitles[i], v, want.values()[i])
		}
	}
	known.early = true // it acts on the claim itself
	if got := log.stages(lives{known})[0]; math.Abs(got.seen-4) > 1e-6 || known.share() != 17*time.Millisecond {
		t.Errorf("early: seen after %v ms, share %s", got.seen, known.share())
	}
}

func TestRates(t *testing.T) {
	begin := time.Now()
	all := lives{}
	for i := range 10 {
		all = append(all, &life{created: begin.Add(time.Duration(i) * time.Millisecond), bound: begin.Add(time.Duration(i+1) * 200 * time.Millisecond)})
	}
	if rate := all.rate(); math.Abs(rate-5) > 1e-9 {
		t.Errorf("10 claims in 2 s: %v a second", rate)
	}
}

func TestSumOfSeries(t *testing.T) {
	const metrics = "# HELP apiserver_request_total x\napiserver_request_total{verb=\"GET\"} 3\napiserver_request_total{verb=\"LIST\",component=\"a b\"} 1e+02\napiserver_request_total_other{} 7\n"
	if sum, err := sumOf(strings.NewReader(metrics), "apiserver_request_total{"); err != nil || sum != 103 {
		t.Errorf("%v, %v; want 103", sum, err)
	}
}

func TestPlotIsDrawn(t *testing.T) {
	p := plot{title: "a < b", x: "claims", y: "ms", points: []point{{"one", 1, 20, 30}, {"one", 100, 900, 1000}, {"two", 1, 15, 0}}}
	for d := xml.NewDecoder(strings.NewReader(p.svg())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, p.svg())
		}
	}
	if text := p.text(); strings.Count(text, "one") != 2 || !strings.Contains(text, "900 / 1000") {
		t.Error(text)
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--figures=speed"}, {"--shapes=block"}, {"--peer=x"}, {"--peer=x=y"}, {"--nodes=0"}, {"--rounds=-1"}, {"full"},
	} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
	o, err := parseOptions([]string{"scale", "--full"})
	if err != nil || !o.scale || len(o.nodes) != 3 || o.burst != 500 {
		t.Errorf("%+v, %v", o, err)
	}
}
