package vm_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// monitor speaks QMP with the qemu of a machine.
type monitor struct {
	*testing.T
	conn net.Conn

	mu     sync.Mutex
	events []string // such as "BLOCK_IO_ERROR stop"
	reply  chan json.RawMessage
}

// attach waits until qemu listens, and reads its events until the test ends.
func attach(t *testing.T, socket string) *monitor {
	t.Helper()
	m := &monitor{T: t, reply: make(chan json.RawMessage, 1)}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var err error
		if m.conn, err = net.Dial("unix", socket); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("qemu does not listen: %v", err)
		}
	}
	t.Cleanup(func() { _ = m.conn.Close() })
	go m.read()
	m.do("qmp_capabilities", nil)
	return m
}

func (m *monitor) read() {
	defer close(m.reply)
	lines := bufio.NewScanner(m.conn)
	for lines.Scan() {
		var message struct {
			Event         string
			Data          struct{ Action, Reason string }
			Return, Error json.RawMessage
		}
		switch err := json.Unmarshal(lines.Bytes(), &message); {
		case err != nil:
			return
		case message.Event != "":
			m.mu.Lock()
			m.events = append(m.events, fmt.Sprintf("%s %s", message.Event, message.Data.Action))
			m.mu.Unlock()
		case message.Error != nil:
			m.reply <- message.Error
		case message.Return != nil:
			m.reply <- message.Return
		}
	}
}

// do runs a command and returns the answer, which is qemu's error where it refused.
func (m *monitor) do(command string, arguments map[string]any) string {
	m.Helper()
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	text, err := json.Marshal(request)
	if err == nil {
		_, err = m.conn.Write(append(text, '\n'))
	}
	if err != nil {
		m.Fatalf("%s: %v", command, err)
	}
	select {
	case answer, open := <-m.reply:
		if !open {
			m.Fatalf("%s: qemu has ended", command)
		}
		return string(answer)
	case <-time.After(time.Minute):
		m.Fatalf("%s: no answer", command)
		return ""
	}
}

// failures returns what qemu did about writes that failed: "stop" or "report", in their order.
func (m *monitor) failures() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		var action string
		if n, _ := fmt.Sscanf(e, "BLOCK_IO_ERROR %s", &action); n == 1 {
			all = append(all, action)
		}
	}
	return all
}
