package harness

import "context"

// TB is the part of testing.TB that a scene needs; a program that is no test can implement it.
// Fatal and Fatalf do not return. Functions given to Cleanup run at the end, the last one first.
type TB interface {
	Name() string
	Context() context.Context
	TempDir() string
	Helper()
	Cleanup(func())
	Log(args ...any)
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}
