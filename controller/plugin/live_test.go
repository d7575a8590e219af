package plugin

import (
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

// The terminal is restored after an error, too. TestTopOnATerminal interrupts.
func TestLiveRestoresTheTerminal(t *testing.T) {
	var out strings.Builder
	s := &session{screen: &screen{out: &out, size: func() (int, int) { return 80, 24 }}}
	s.Out, s.ErrOut = &out, &out
	err := s.live(t.Context(), func(context.Context) error {
		_, _ = s.Out.Write([]byte("drawn\n"))
		return errors.New("the API server is gone")
	})
	if err == nil || err.Error() != "the API server is gone" || out.String() != enterScreen+leaveScreen || s.Out != &out {
		t.Errorf("%v, %q, the output was restored: %t", err, out.String(), s.Out == &out)
	}
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
