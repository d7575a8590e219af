package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Life is what agents do with a volume, in stages whose ends can be seen. A test goes through it
// once undisturbed, to count the changes to the disk, and then once for each number, with the agent
// killed before the change that has it, however slow the machine is. An agent does several things at
// once, so a number may belong to another change in each life. A test that must see the agent killed
// before a certain change gives HPP_KILL_AT its name.
type Life struct {
	lengths []int // changes in each stage
}

// Steps is the number of changes in an undisturbed life.
func (l *Life) Steps() (sum int) {
	for _, length := range l.lengths {
		sum += length
	}
	return sum
}

// Mortal is an agent in one life.
type Mortal struct {
	*Agent
	life  *Life
	n     int
	from  int    // where the log of this start begins
	step  string // before which the agent was killed, "" if it was not
	stage int
	begin int       // changes until the end of the stage before
	made  int       // changes that were seen
	since time.Time // when that number was seen first, in this stage
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
		l.lengths = nil
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
	m.since = time.Now()
	s.Eventually(fmt.Sprintf("%s, and %s after change %d", what, last, m.begin), func() error {
		s.Helper()
		switch {
		case m.step != "":
			return done()
		case !m.Alive():
			m.step, killed = m.LastKill(), true
			s.Logf("killed before change %d, %s", m.n, m.step)
			return nil
		}
		return m.over(last, done)
	})
	switch {
	case m.n == 0:
		m.life.lengths = append(m.life.lengths, m.made-m.begin)
	case m.step == "" && m.made < m.counted():
		s.Logf("to be killed before change %d: the stage is over after change %d, the counted one after %d", m.n, m.made, m.counted())
	}
	m.begin = m.made
	m.stage++
	return killed
}

// settled is how long an agent makes no change until a stage with fewer than were counted is over.
const settled = 15 * time.Second

// over returns nil if a living agent's stage is over. It ends the test if the agent has made the
// change that it was to be killed before.
func (m *Mortal) over(last string, done func() error) error {
	m.scene.Helper()
	steps := m.Steps()
	if len(steps) != m.made {
		m.made, m.since = len(steps), time.Now()
	}
	if m.n > 0 && m.made >= m.n {
		m.scene.Fatalf("change %d was made, want the agent killed before it: %q", m.n, steps)
	}
	if m.made <= m.begin || steps[m.made-1] != last {
		return fmt.Errorf("the changes are %q", steps)
	}
	if err := done(); err != nil {
		return fmt.Errorf("%w; the changes are %q", err, steps)
	}
	if want := m.counted(); m.made < want && time.Since(m.since) < settled {
		return fmt.Errorf("%d changes, want %d: %q", m.made, want, steps)
	}
	return nil
}

// counted is the number of changes at the end of this stage if it has as many as in the undisturbed
// life, 0 in that life itself.
func (m *Mortal) counted() int {
	if m.n == 0 {
		return 0
	}
	return m.begin + m.life.lengths[m.stage]
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
