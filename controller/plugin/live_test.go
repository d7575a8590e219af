package plugin

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
)

func TestFrame(t *testing.T) {
	for _, row := range []struct {
		text          string
		width, height int
		want          string
	}{
		{"one\ntwo\n", 80, 24, "\x1b[Hone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J"},
		{"one\ntwo\nthree\n", 80, 3, "\x1b[Hone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J"}, // the last line stays empty
		{"longer\n", 4, 24, "\x1b[Hlong\x1b[0m\x1b[K\r\n\x1b[J"},
		{"\x1b[31mlong\x1b[0m", 4, 24, "\x1b[H\x1b[31mlong\x1b[0m\x1b[K\r\n\x1b[J"}, // colors take no room
		{"any width\n", 0, 0, "\x1b[Hany width\x1b[K\r\n\x1b[J"},
	} {
		if got := frame(row.text, row.width, row.height); got != row.want {
			t.Errorf("frame(%q, %d, %d) = %q, want %q", row.text, row.width, row.height, got, row.want)
		}
	}
}

// The terminal is restored at the end, and also after an error.
func TestLiveRestoresTheTerminal(t *testing.T) {
	for name, row := range map[string]struct {
		fails error
		want  string
	}{
		"interrupted": {nil, ""},
		"failed":      {errors.New("the API server is gone"), "the API server is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &session{}
			s.Out, s.ErrOut = &out, &out
			s.screen = &screen{out: writer(func(text []byte) (int, error) {
				if bytes.Contains(text, []byte("drawn")) {
					cancel()
				}
				return out.Write(text)
			}), size: func() (int, int) { return 80, 24 }}
			err := s.live(ctx, func(context.Context) error {
				_, _ = s.Out.Write([]byte("drawn\n"))
				return row.fails
			})
			if got := errText(err); got != row.want {
				t.Errorf("error %q, want %q", got, row.want)
			}
			text := out.String()
			if !strings.HasPrefix(text, enterScreen) || !strings.HasSuffix(text, leaveScreen) {
				t.Errorf("%q does not enter and leave the alternate screen", text)
			}
			if drawn := strings.Contains(text, "drawn"); drawn != (row.fails == nil) {
				t.Errorf("drawn: %v", drawn)
			}
			if s.Out != &out {
				t.Error("the output was not restored")
			}
		})
	}
}

type writer func(text []byte) (int, error)

func (w writer) Write(text []byte) (int, error) { return w(text) }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestMeter(t *testing.T) {
	volume := func(used int64) []fleet.Volume { return []fleet.Volume{{Node: "n", Path: "/p/v", Used: &used}} }
	m, now := &meter{}, time.Now()
	for i, row := range []struct {
		used  int64
		after time.Duration
		want  string
	}{
		{1 << 20, 0, ""}, // there is nothing to compare with
		{5 << 20, 2 * time.Second, "+2Mi/s"},
		{1 << 20, 2 * time.Second, "-2Mi/s"},
		{1 << 20, 2 * time.Second, ""},
		{9 << 20, time.Millisecond, ""}, // too short for a rate
	} {
		now = now.Add(row.after)
		if got := m.growth(volume(row.used), now)["n /p/v"]; got != row.want {
			t.Errorf("row %d: %q, want %q", i, got, row.want)
		}
	}
}
