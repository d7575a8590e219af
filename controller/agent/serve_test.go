package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAddresses(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	agent := []string{"--node-name=node-01", "--pv-dir=" + filepath.Join(dir, "pool")}
	driver := []string{"--endpoint=unix:///csi.sock", "--nodeid=node-01", fmt.Sprintf(`--datadir=[{"name":"a","path":%q}]`, filepath.Join(dir, "pool"))}
	for name, row := range map[string]struct {
		args          []string
		http, metrics string
	}{
		"agent":                  {agent, ":9898", ""},
		"agent, off":             {append(agent, "--http-address="), "", ""},
		"agent, both":            {append(agent, "--metrics-address=:1"), ":9898", ":1"},
		"driver":                 {driver, "", ":8443"},
		"driver, http":           {append(driver, "--http-address=:9898"), ":9898", ""},
		"driver, http off":       {append(driver, "--http-address="), "", ":8443"},
		"driver, metrics off":    {append(driver, "--metrics-address="), "", ""},
		"driver, other port":     {append(driver, "--metrics-address=:1"), "", ":1"},
		"driver, both":           {append(driver, "--http-address=:2", "--metrics-address=:1"), ":2", ":1"},
		"driver, older operator": {append(driver, "--metrics-tls-version="), "", ":8443"},
	} {
		o, err := Parse("test", row.args, &bytes.Buffer{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if o.address != row.http || o.metrics.address != row.metrics {
			t.Errorf("%s: %q and %q, want %q and %q", name, o.address, o.metrics.address, row.http, row.metrics)
		}
	}
}

// Tokens are asked for where they can be asked about, and cannot be read on their way.
func TestMetricsAuth(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	agent := []string{"--node-name=node-01", "--pv-dir=" + filepath.Join(dir, "pool"), "--metrics-auth=token"}
	driver := []string{"--endpoint=unix:///csi.sock", "--nodeid=node-01", fmt.Sprintf(`--datadir=[{"name":"a","path":%q}]`, filepath.Join(dir, "pool")), "--metrics-auth=token"}
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"agent":          {append(agent, "--metrics-address=:1"), ""},
		"without TLS":    {agent, "--metrics-address"},
		"other":          {append(agent, "--metrics-auth=basic"), `--metrics-auth (HPP_METRICS_AUTH) is "basic"; set it to none or token`},
		"plain driver":   {driver, "--provision"},
		"driver, claims": {append(driver, "--provision=csi", "--namespace=ns", "--metrics-address=:1"), ""},
	} {
		_, err := Parse("test", row.args, &bytes.Buffer{})
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

func TestOwnHosts(t *testing.T) {
	for name, row := range map[string]struct {
		env  map[string]string
		want string
	}{
		"nothing":      {nil, "localhost 127.0.0.1"},
		"pod":          {map[string]string{"POD_IP": "10.0.0.7", "POD_NAMESPACE": "ns"}, "localhost 127.0.0.1 10.0.0.7"},
		"service":      {map[string]string{"SERVICE_NAME": "m", "POD_NAMESPACE": "ns"}, "localhost 127.0.0.1 m m.ns m.ns.svc"},
		"no namespace": {map[string]string{"SERVICE_NAME": "m"}, "localhost 127.0.0.1 m"},
	} {
		got := ownHosts(func(name string) string { return row.env[name] })
		if !slices.Equal(got, strings.Fields(row.want)) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// The existing driver's flags alone serve its metrics over HTTPS.
func TestDriverServesMetricsOverHTTPS(t *testing.T) {
	clean(t)
	dir, address := t.TempDir(), freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, "test", []string{"--endpoint=unix://" + dir + "/csi.sock", "--nodeid=node-01", "--metrics-address=" + address,
			"--metrics-tls-version=", fmt.Sprintf(`--datadir=[{"name":"local","path":%q}]`, filepath.Join(dir, "pool"))}, &bytes.Buffer{})
	}()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var text string
	for end := time.Now().Add(time.Minute); !strings.Contains(text, `kubevirt_hpp_pool_ready{pool="local"} 1`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("metrics: %s", text)
		}
		res, err := client.Get("https://" + address + "/metrics")
		if err != nil {
			text = err.Error()
			continue
		}
		body, err := io.ReadAll(res.Body)
		text = fmt.Sprint(string(body), err)
		res.Body.Close()
	}
	if !strings.Contains(text, `kubevirt_hpp_pool_path_shared_with_os{pool="local"} `) {
		t.Error("the existing driver's metric is not there")
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
	if conn, err := tls.Dial("tcp", address, old); err == nil {
		t.Error("TLS 1.2 is spoken where no version is named")
		conn.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
