// Package trash keeps the deleted volumes of a pool until it has removed their data.
//
// Move renames a volume into the trash directory of the pool, under the name that its record has
// for that. An Emptying removes the entries at a bounded rate and in turns, so that a large volume
// does not delay the others. The record of an entry is beside it as <id>.json. It has the reason if
// an entry cannot be removed, and is removed after the entry.
//
// A deleted volume may be kept before that, in a directory of its own, until Leave renames it into the
// trash. The Index has the kept volumes in memory, Victims chooses those that go early, and a Room
// remembers for whom.
package trash
