// Package trash keeps the deleted volumes of a pool until it has removed their data.
//
// Move renames a volume into the trash directory of the pool, under the name that its record has
// for that. An Emptying removes the entries at a bounded rate and in turns, so that a large volume
// does not delay the others. The record of an entry is beside it as <id>.json. It has the reason if
// an entry cannot be removed, and is removed after the entry.
package trash
