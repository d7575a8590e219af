package torture

import (
	"context"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
)

// However a campaign ends, what it set up is taken down, the last first.
func TestPlayCleansUp(t *testing.T) {
	for name, end := range map[string]func(*stage, context.CancelFunc){
		"by itself":     func(*stage, context.CancelFunc) {},
		"fatal":         func(s *stage, _ context.CancelFunc) { s.Fatalf("no %s", "disk") },
		"fatal in part": func(s *stage, _ context.CancelFunc) { s.apart(func() { s.Fatal("no disk") }); <-s.Context().Done() },
		"interrupted":   func(s *stage, interrupt context.CancelFunc) { interrupt(); <-s.Context().Done(); s.Fatal("too late") },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var done []string
			var dir string
			trouble := play(ctx, io.Discard, func(s *stage) {
				dir = s.TempDir()
				s.Cleanup(func() { done = append(done, "disk") })
				s.Cleanup(func() { done = append(done, "agent"); s.Fatal("and this one") })
				end(s, interrupt)
			})
			if !slices.Equal(done, []string{"agent", "disk"}) {
				t.Errorf("cleaned up %v", done)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", dir, err)
			}
			fatal := name == "fatal" || name == "fatal in part"
			if fatal != slices.Contains(trouble, "no disk") || slices.Contains(trouble, "too late") {
				t.Errorf("trouble %q", trouble)
			}
		})
	}
}

// Two that fail at the same time are both heard.
func TestPlayHearsAll(t *testing.T) {
	trouble := play(t.Context(), io.Discard, func(s *stage) {
		var wg sync.WaitGroup
		for _, what := range []string{"one", "two"} {
			wg.Go(func() { s.Error(what) })
		}
		wg.Wait()
	})
	if slices.Sort(trouble); !slices.Equal(trouble, []string{"one", "two"}) {
		t.Errorf("trouble %q", trouble)
	}
}
