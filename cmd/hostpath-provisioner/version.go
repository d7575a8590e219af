package main

// version is set by the linker; see the Makefile.
var version = "unknown"
