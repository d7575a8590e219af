package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One inspect of an agent is admitted at a time. The next waits, and gives up after some time.
func TestAdmit(t *testing.T) {
	program := filepath.Join(t.TempDir(), "hostpath-provisioner")
	if err := os.WriteFile(program, nil, 0o500); err != nil {
		t.Fatal(err)
	}
	release, err := admit(program, program, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := admit(program, program, 300*time.Millisecond); err == nil || !strings.Contains(err.Error(), "another inspect of this agent runs") {
		t.Errorf("beside another one: %v", err)
	}
	if waited := time.Since(began); waited < 300*time.Millisecond {
		t.Errorf("it gave up after %s", waited)
	}
	time.AfterFunc(200*time.Millisecond, release)
	next, err := admit(program, program, time.Minute)
	if err != nil {
		t.Errorf("once the other one has ended: %v", err)
	}
	next()
	if next, err = admit(program, program, 0); err != nil {
		t.Errorf("after the last one: %v", err)
	}
	next()
}

// What is not beside an agent, and what cannot be locked, is admitted.
func TestAdmitElsewhere(t *testing.T) {
	dir := t.TempDir()
	program, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{program, other} {
		if err := os.WriteFile(name, nil, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ first, self string }{{other, program}, {filepath.Join(dir, "none"), program}, {program, filepath.Join(dir, "none")}} {
		for range 2 {
			if _, err := admit(row.first, row.self, 0); err != nil {
				t.Errorf("%v: %v", row, err)
			}
		}
	}
}
