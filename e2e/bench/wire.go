package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// wireClaims is the number of claims of another node that are created and deleted while bytes are
// counted.
const wireClaims = 100

// proxy forwards connections to the API server and counts the bytes that come back, which are
// encrypted.
type proxy struct {
	net.Listener
	to       string
	received atomic.Int64 // bytes of the API server
	sent     atomic.Int64
}

// newProxy returns a proxy that listens until it is closed.
func newProxy(api string) (*proxy, error) {
	to, err := url.Parse(api)
	if err != nil {
		return nil, err
	}
	p := &proxy{to: to.Host}
	if p.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := p.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p, nil
}

func (p *proxy) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		defer func() { _ = server.Close() }()
		_, _ = io.Copy(counter{server, &p.sent}, c) // the end of either side ends both
	}()
	_, _ = io.Copy(counter{c, &p.received}, server)
}

type counter struct {
	io.Writer
	n *atomic.Int64
}

func (c counter) Write(data []byte) (int, error) {
	n, err := c.Writer.Write(data)
	c.n.Add(int64(n))
	return n, err
}

// redirect writes a copy of the kubeconfig whose API server is at the address.
func redirect(kubeconfig, address, to string) (string, error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", err
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + address
	}
	return to, clientcmd.WriteToFile(*config, to)
}

// wire counts what the API server sends a node for claims of another one: to the agent, and to the
// informers of claims and PVs of an ordinary provisioner.
func (l *lab) wire(ctx context.Context, r *report) error {
	ours, err := newProxy(l.env.Plane.URL())
	if err != nil {
		return err
	}
	defer func() { _ = ours.Close() }()
	plain, err := newProxy(l.env.Plane.URL())
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	stop, err := l.informers(ctx, plain.Addr().String())
	if err != nil {
		return err
	}
	defer stop()
	for _, at := range []struct{ node, through string }{{"wire-here", ours.Addr().String()}, {"wire-there", ""}} {
		if _, err := l.node(ctx, at.node); err != nil {
			return err
		}
		agent, err := l.start(ctx, agentOf(shapeBoth), at.node, at.through)
		if err != nil {
			return err
		}
		defer agent.stop()
	}
	for _, shape := range []string{shapeHostPath, shapeCSI} {
		s := agentOf(shape)
		s.scheduled = shape == shapeCSI
		bytes, err := l.lifeBytes(ctx, s, ours, plain)
		if err != nil {
			return err
		}
		l.say("%s: %.0f bytes for the life of a foreign claim, unfiltered informers %.0f", shape, bytes[0], bytes[1])
		r.add(figure{
			name: "wire." + shape, unit: "bytes for a foreign claim (limit: unfiltered)", limit: bytes[1], agent: bytes[0],
			ratios: sample{bytes[0] / bytes[1]}, target: "<= 0.55", met: bytes[0]/bytes[1] <= 0.55,
		})
	}
	return nil
}

// lifeBytes returns what each proxy forwarded for one claim of another node, without its idle
// traffic.
func (l *lab) lifeBytes(ctx context.Context, s *subject, ours, plain *proxy) ([2]float64, error) {
	received := func() [2]float64 { return [2]float64{float64(ours.received.Load()), float64(plain.received.Load())} }
	there := func(int) string { return "wire-there" }
	quiet := 8 * time.Second
	time.Sleep(time.Second)
	begin, before := time.Now(), received()
	time.Sleep(quiet)
	middle, idle := time.Now(), received()
	all, err := l.createSpread(ctx, s, there, wireClaims)
	if err == nil {
		err = l.remove(ctx, all)
	}
	time.Sleep(2 * time.Second)
	end, after := time.Now(), received()
	var out [2]float64
	for i := range out {
		anyhow := (idle[i] - before[i]) / middle.Sub(begin).Seconds() * end.Sub(middle).Seconds()
		out[i] = (after[i] - idle[i] - anyhow) / wireClaims
	}
	return out, err
}

// informers starts informers of all claims and PVs, as protobuf, through the proxy.
func (l *lab) informers(ctx context.Context, through string) (stop func(), err error) {
	config, err := l.env.Plane.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.Host = "https://" + through
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, stop = context.WithCancel(ctx)
	f := informers.NewSharedInformerFactory(client, 0)
	f.Core().V1().PersistentVolumeClaims().Informer()
	f.Core().V1().PersistentVolumes().Informer()
	f.Start(ctx.Done())
	for _, synced := range f.WaitForCacheSync(ctx.Done()) {
		if !synced {
			err = errors.New("informers did not synchronize")
		}
	}
	return stop, err
}
