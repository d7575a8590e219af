package harness

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// Stage waits for the end of the next stage: done returns nil, and in an undisturbed life the agent
// has made a change called last. If the agent is to be killed in this stage, Stage waits for that,
// and reports it. The caller then starts the agent again, and waits for the end of the stage.
func (m *Mortal) Stage(what, last string, done func() error) (killed bool) {
	s := m.scene
	s.Helper()
	begin := 0
	if m.stage > 0 {
		begin = m.life.ends[m.stage-1]
	}
	switch {
	case m.n == 0:
		s.Eventually(fmt.Sprintf("%s, and %s after change %d", what, last, begin), func() error {
			if steps := m.Steps(); len(steps) <= begin || steps[len(steps)-1] != last {
				return fmt.Errorf("the changes are %q", steps)
			}
			return done()
		})
		m.life.ends = append(m.life.ends, len(m.Steps()))
	case m.step == "" && m.n <= m.life.ends[m.stage]:
		s.Eventually(fmt.Sprintf("killed before change %d of %d", m.n, m.life.ends[m.stage]), func() error {
			if m.Alive() {
				return fmt.Errorf("%w; the changes are %q", orAlive(done()), m.Steps())
			}
			return nil
		})
		m.step, killed = m.LastKill(), true
		s.Logf("killed before change %d, %s", m.n, m.step)
	default:
		s.Eventually(what, func() error {
			if steps := m.Steps(); m.step == "" && len(steps) < m.life.ends[m.stage] {
				return fmt.Errorf("%d changes, want %d: %q", len(steps), m.life.ends[m.stage], steps)
			}
			return done()
		})
	}
	m.stage++
	return killed
}

// orAlive is the reason why a stage is not over, or that it is over and the agent alive.
func orAlive(err error) error {
	if err == nil {
		return errors.New("the stage is over, and the agent is alive")
	}
	return err
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
