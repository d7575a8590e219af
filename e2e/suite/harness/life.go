package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Life is what agents do with a volume, in stages whose ends can be seen. A test goes through it
// once undisturbed, to count the changes to the disk, and then once for each change, with the agent
// killed before it. So no change is left out, however slow the machine is.
type Life struct {
	ends []int // changes until the end of each stage
}

// Steps is the number of changes in an undisturbed life.
func (l *Life) Steps() int {
	if len(l.ends) == 0 {
		return 0
	}
	return l.ends[len(l.ends)-1]
}

// Mortal is an agent in one life.
type Mortal struct {
	*Agent
	life  *Life
	n     int
	stage int
	begin int    // changes until the end of the stage before
	from  int    // where the log of this start begins
	step  string // before which the agent was killed, "" if it was not
}

// Live starts the agent, to be killed before its n-th change to a disk. With n = 0 it is not
// killed, and the life's changes are counted. The agent's program has the tag faults.
func (a *Agent) Live(l *Life, n int) *Mortal {
	a.scene.Helper()
	m := &Mortal{Agent: a, life: l, n: n}
	if a.cmd != nil {
		m.from = len(a.Log())
	}
	if n == 0 {
		l.ends = nil
	}
	a.RestartWith("HPP_KILL_AT=" + strconv.Itoa(n))
	return m
}

// Stage waits for the end of the next stage: done returns nil, and the agent has made a change called
// last. If the agent is killed before that, Stage reports it. The caller then starts the agent again,
// and waits for the end of the stage.
//
// Two reasons to write a record can meet in one write, so a life may have fewer changes than the one
// that was counted, and a kill may come a stage later or never. Then Stage waits until the agent has
// made no change for a while, and logs the difference. Where it reports no kill, the agent may be
// killed at any time after, and the next Stage reports that.
func (m *Mortal) Stage(what, last string, done func() error) (killed bool) {
	s := m.scene
	s.Helper()
	begin, made, since := m.begin, 0, time.Now()
	s.Eventually(fmt.Sprintf("%s, and %s after change %d", what, last, begin), func() error {
		s.Helper()
		if m.step != "" {
			return done()
		}
		if !m.Alive() {
			m.step, killed = m.LastKill(), true
			s.Logf("killed before change %d, %s", m.n, m.step)
			return nil
		}
		steps := m.Steps()
		if len(steps) != made {
			made, since = len(steps), time.Now()
		}
		if m.n > 0 && made >= m.n {
			s.Fatalf("%s: change %d was made, want the agent killed before it: %q", what, m.n, steps)
		}
		if made <= begin || steps[made-1] != last {
			return fmt.Errorf("the changes are %q", steps)
		}
		if err := done(); err != nil {
			return fmt.Errorf("%w; the changes are %q", err, steps)
		}
		if want := m.counted(); made < want && time.Since(since) < settled {
			return fmt.Errorf("%d changes, want %d: %q", made, want, steps)
		}
		return nil
	})
	switch {
	case m.n == 0:
		m.life.ends = append(m.life.ends, made)
	case m.step == "" && made < m.counted():
		s.Logf("to be killed before change %d: the stage is over after change %d, the counted one was after %d", m.n, made, m.counted())
	}
	m.begin = made
	m.stage++
	return killed
}

// settled is how long an agent makes no change until a stage with fewer than were counted is over.
const settled = 15 * time.Second

// counted is the number of changes until the end of this stage in the undisturbed life, 0 if this is it.
func (m *Mortal) counted() int {
	if m.n == 0 {
		return 0
	}
	return m.life.ends[m.stage]
}

// Step is the change before which the agent was killed, "" if it was not.
func (m *Mortal) Step() string { return m.step }

// Steps returns the names of the changes that the agent has made in this life before it was killed.
func (m *Mortal) Steps() (names []string) {
	m.scene.Helper()
	for line := range strings.Lines(m.Log()[m.from:]) {
		if name, ok := strings.CutPrefix(line, "step "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// LastKill returns the change before which the agent was killed last. It ends the test if the agent
// ended for another reason.
func (a *Agent) LastKill() string {
	a.scene.Helper()
	lines := strings.Split(a.Log(), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		if name, ok := strings.CutPrefix(line, "killed before step "); ok {
			return name
		}
	}
	a.scene.Fatalf("agent of %s: it ended, and does not say that it was killed", a.Node.Name)
	return ""
}
