package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// scaleRow has the measurements with that number of nodes.
type scaleRow struct {
	nodes                     int
	rate, p50, p99            float64 // claims a second; ms
	requests                  float64 // to the API server by all clients, for the life of a claim
	bytes                     float64 // from the API server to a node, for the life of a claim, its own or not
	idleBytes                 float64 // to a node in a second without claims
	memory, memoryMost, start float64 // MiB of an agent; seconds until all were ready
}

// scaleUp runs more and more agents, each a node with its own pool, and spreads as many claims over
// them.
func (l *lab) scaleUp(ctx context.Context, r *report) error {
	for _, n := range l.nodes {
		row, err := l.scaleTo(ctx, n)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
		r.scale = append(r.scale, row)
	}
	return nil
}

func (l *lab) scaleTo(ctx context.Context, n int) (scaleRow, error) {
	row := scaleRow{nodes: n}
	fleet := &fleet{lab: l}
	defer fleet.stop()
	begin := time.Now()
	for i := range n {
		if err := fleet.add(ctx, fmt.Sprintf("scale-%d-%03d", n, i)); err != nil {
			return row, err
		}
	}
	row.start = time.Since(begin).Seconds()
	l.say("%d agents are ready after %.1f s", n, row.start)
	quiet := 5 * time.Second
	time.Sleep(quiet)
	received := fleet.received()
	time.Sleep(quiet)
	row.idleBytes = (fleet.received() - received) / quiet.Seconds() / float64(n)

	requests, err := l.requests(ctx)
	if err != nil {
		return row, err
	}
	received, begin = fleet.received(), time.Now()
	all, err := l.createSpread(ctx, agentOf(shapeCSI), func(i int) string { return fleet.agents[i%n].node }, l.burst)
	if err == nil {
		err = l.remove(ctx, all)
	}
	if err != nil {
		return row, err
	}
	time.Sleep(2 * time.Second)
	after, err := l.requests(ctx)
	claims := float64(len(all))
	row.requests = (after - requests) / claims
	row.bytes = max(0, (fleet.received()-received)/float64(n)-row.idleBytes*time.Since(begin).Seconds()) / claims
	took := all.each((*life).took)
	row.rate, row.p50, row.p99 = all.rate(), took.at(50), took.at(99)
	for _, a := range fleet.agents {
		rss, err := a.memory("VmRSS")
		if err != nil {
			return row, err
		}
		row.memory += float64(rss) / mebibyte / float64(n)
		row.memoryMost = max(row.memoryMost, float64(rss)/mebibyte)
	}
	l.say("%d nodes: %.1f claims/s, %.0f bytes a node and claim, %.1f MiB a node", n, row.rate, row.bytes, row.memory)
	return row, err
}

// fleet is the agents of many nodes, each behind a proxy.
type fleet struct {
	lab     *lab
	agents  []*running
	proxies []*proxy
}

func (f *fleet) add(ctx context.Context, name string) error {
	node, err := f.lab.node(ctx, name)
	if err != nil {
		return err
	}
	p, err := newProxy(f.lab.env.Plane.URL())
	if err != nil {
		return err
	}
	f.proxies = append(f.proxies, p)
	a, err := f.lab.start(ctx, agentOf(shapeBoth), node, p.Addr().String())
	if err == nil {
		f.agents = append(f.agents, a)
	}
	return err
}

// received returns the bytes that the API server sent to all of them.
func (f *fleet) received() (bytes float64) {
	for _, p := range f.proxies {
		bytes += float64(p.received.Load())
	}
	return bytes
}

func (f *fleet) stop() {
	_ = together(len(f.agents), func(i int) error { f.agents[i].stop(); return nil })
	for _, p := range f.proxies {
		_ = p.Close()
	}
}

// requests returns the number of requests that the API server has served.
func (l *lab) requests(ctx context.Context) (float64, error) {
	body, err := l.client.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("metrics of the API server: %w", err)
	}
	return sumOf(bytes.NewReader(body), "apiserver_request_total{")
}

// sumOf returns the sum of all series whose names begin with the prefix.
func sumOf(metrics io.Reader, series string) (sum float64, err error) {
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, series) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", line, err)
		}
		sum += v
	}
	return sum, lines.Err()
}

func (r *report) printScale(w io.Writer) {
	if len(r.scale) == 0 {
		return
	}
	fmt.Fprintf(w, "%d claims at once, spread over the nodes\n\n", r.lab.burst)
	fmt.Fprintln(w, "| nodes | ready after, s | claims/s | p50 / p99, ms | API requests a claim's life | bytes to each "+
		"node a claim's life | bytes/s to a node, idle | MiB a node, mean / most |\n|---|---|---|---|---|---|---|---|")
	for _, s := range r.scale {
		fmt.Fprintf(w, "| %d | %s | %s | %s / %s | %s | %s | %s | %s / %s |\n", s.nodes, number(s.start), number(s.rate),
			number(s.p50), number(s.p99),
			number(s.requests), number(s.bytes), number(s.idleBytes), number(s.memory), number(s.memoryMost))
	}
}

// scalePlot plots the cost of a node against the number of nodes.
func (r *report) scalePlot() plot {
	p := plot{title: "As nodes are added", x: "nodes", y: "see the lines"}
	for _, line := range []struct {
		name string
		of   func(scaleRow) float64
	}{
		{"claims/s", func(s scaleRow) float64 { return s.rate }},
		{"requests a claim", func(s scaleRow) float64 { return s.requests }},
		{"KiB a node a claim", func(s scaleRow) float64 { return s.bytes / 1024 }},
		{"MiB a node", func(s scaleRow) float64 { return s.memory }},
	} {
		for _, s := range r.scale {
			p.points = append(p.points, point{line: line.name, x: float64(s.nodes), y: line.of(s)})
		}
	}
	return p
}
