// Package health checks the published volumes of a pool: whether pods see the right
// directory, whether data can still be written, and whether the kernel enforces the
// quota of each volume. Each volume has one Problem at most, the gravest that applies.
package health
