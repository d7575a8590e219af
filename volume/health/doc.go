// Package health checks the published volumes of a pool: whether pods see the right
// directory, whether data can still be written, and whether the kernel holds each volume
// to its quota. Each volume has one Problem at most, the gravest that applies.
package health
