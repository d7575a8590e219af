// Package fault defines the errors of package volume and of the packages below it: the sentinels
// that callers compare with errors.Is, the error types that carry facts, and the check of a
// volume's name. Callers outside package volume use the aliases there.
package fault
