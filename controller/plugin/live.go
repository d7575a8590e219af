package plugin

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// redrawAfter is how long a display stays before it is drawn again.
const redrawAfter = 2 * time.Second

// The control sequences of a terminal: ECMA-48, and the alternate screen and the cursor of xterm's
// private modes (ctlseqs).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTheTop    = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// screen is a terminal on which a display is drawn again and again.
type screen struct {
	out io.Writer
	// size returns the width and the height in characters; 0 if they are not known.
	size func() (width, height int)
}

// screenOf returns the screen of an output, nil if it is not a terminal that can move its cursor.
func screenOf(out io.Writer) *screen {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &screen{out: f, size: func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	}}
}

// every calls f until the context ends or f fails, with a pause after each call. The end of the
// context is no error: it is how a user ends a display.
func every(ctx context.Context, pause time.Duration, f func(context.Context) error) error {
	for {
		if err := f(ctx); ctx.Err() == nil && err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// live draws what print prints to s.Out on the alternate screen, again and again, until the context
// ends or print fails. Then the terminal has what it had before.
func (s *session) live(ctx context.Context, print func(context.Context) error) (err error) {
	out, errOut, c := s.Out, s.ErrOut, s.screen
	s.interrupted = nil
	defer func() { s.Out, s.ErrOut = out, errOut }()
	if _, err := io.WriteString(c.out, enterScreen); err != nil {
		return err
	}
	defer func() {
		if _, failed := io.WriteString(c.out, leaveScreen); err == nil {
			err = failed
		}
	}()
	return every(ctx, redrawAfter, func(ctx context.Context) error {
		width, height := c.size()
		var text bytes.Buffer
		s.Out, s.ErrOut, s.style.Width = &text, &text, width
		err := print(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		_, err = io.WriteString(c.out, frame(text.String(), width, height))
		return err
	})
}

// frame returns the text as a picture of at most that many lines and columns. It leaves the last
// line empty: a line end there would scroll.
func frame(text string, width, height int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if height > 1 && len(lines) > height-1 {
		lines = lines[:height-1]
	}
	var b strings.Builder
	b.WriteString(toTheTop)
	for _, line := range lines {
		b.WriteString(cut(line, width) + eraseLine + "\r\n")
	}
	return b.String() + eraseBelow
}

// cut returns the first characters of a line, as many as the width. Colors take no room.
func cut(line string, width int) string {
	if width <= 0 {
		return line
	}
	used, inColor := 0, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			inColor = true
		case inColor:
			inColor = r != 'm'
		case used == width:
			return line[:i] + "\x1b[0m"
		default:
			used++
		}
	}
	return line
}
