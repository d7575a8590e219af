// Package trash keeps the volumes of a pool that were deleted until their data
// is removed, and removes it.
//
// Move renames a volume into the trash directory of the pool, under the name
// that its record has for that. An Emptying removes the entries at a bounded
// rate and in turns, so that a large volume does not hold up the others. The
// record of an entry lies beside it as <id>.json. It is removed after the entry,
// and says why an entry could not be removed.
package trash
