// Package apply makes objects of the cluster the desired ones.
//
//	apply.go         compares an object with the cluster's, and applies it
//	takeover.go      takes fields over from others, and replaces what cannot be changed
//	contest.go       delays writes of objects that others change back
//	object.go        reads objects, and marks them with a hash of what is applied
//	kinds.go         the kinds of what the operator applies
//	installation.go  the labels, namespace and owner that every object has
package apply
