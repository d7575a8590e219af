// Package file reads and writes small files that must survive a power cut.
//
// A file is written under a temporary name, flushed, renamed into place, and
// its directory is flushed. Each function takes an open directory and a name in
// it, and does not follow that name if it is a symbolic link. A function that changes the disk
// calls step before each part of the change, so that tests can stop there.
package file
