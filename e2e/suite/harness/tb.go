package harness

import "context"

// TB is what a scene needs of whoever plays it: a test has it, and so has a program that is no test. Fatal and Fatalf do
// not return; what Cleanup was given is done at the end, the last first.
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
