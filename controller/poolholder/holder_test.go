package poolholder_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/poolholder"
)

func TestOptions(t *testing.T) {
	for words, args := range map[string][]string{
		`--path is ""`:        {"--claim=/claim"},
		`--path is "csi"`:     {"--claim=/claim", "--path=csi"},
		`--path is "/csi"`:    {"--claim=/claim", "--path=/csi"},
		`--path is "/a/csi/"`: {"--claim=/claim", "--path=/a/csi/"},
		`--claim is ""`:       {"--path=/a/csi"},
		"--no-such":           {"--no-such"},
		`"more" is no flag`:   {"more"},
		"--interval is 0s":    {"--claim=/claim", "--path=/a/csi", "--interval=0"},
	} {
		if _, err := poolholder.ParseHold(args, io.Discard); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want words %q", args, err, words)
		}
	}
	for name, parse := range map[string]func([]string, io.Writer) (*poolholder.Options,
		error){"hold": poolholder.ParseHold, "unmount": poolholder.ParseUnmount} {
		var out bytes.Buffer
		if o, err := parse([]string{"--help"}, &out); o != nil || err != nil ||
			!strings.Contains(out.String(), "hostpath-provisioner "+name) {
			t.Errorf("%s --help: %v, %v, %s", name, o, err, &out)
		}
	}
	if o, err := poolholder.ParseUnmount([]string{"--path=/a/csi", "--deadline=5s"}, io.Discard); err != nil ||
		o.Deadline != 5*time.Second || o.Path != "/a/csi" {
		t.Errorf("%+v, %v", o, err)
	}
}

// /readyz returns the reason why the filesystem is not mounted.
func TestHoldNotReady(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	claim, done := t.TempDir(), make(chan error)
	free, err := net.Listen("tcp", "127.11.0.2:0") // other tests use other addresses: the port stays free
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	go func() {
		done <- poolholder.Hold(ctx, &poolholder.Options{Claim: claim, Path: filepath.Join(t.TempDir(), "csi"),
			Address: address, Every: time.Millisecond})
	}()
	text := ""
	for until := time.Now().Add(10 * time.Second); !strings.Contains(text,
		"nothing is mounted at "+claim); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("readyz answers %q", text)
		}
		if answer, err := http.Get("http://" + address + "/readyz"); err == nil {
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			text = string(body)
			if answer.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s: %s", answer.Status, text)
			}
		}
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUnmountNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none/csi"), filepath.Join(dir, "csi")} {
		if err := poolholder.Unmount(t.Context(), &poolholder.Options{Path: path, Every: time.Millisecond,
			Deadline: time.Second}); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "csi"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := poolholder.Unmount(t.Context(), &poolholder.Options{Path: filepath.Join(dir, "csi"), Every: time.Millisecond,
		Deadline: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "not unmounted within 50ms") {
		t.Errorf("a file: %v", err)
	}
}
