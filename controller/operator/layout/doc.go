// Package layout decides what the agents offer: which pools and which settings.
//
//	layout.go     what a resource asks for, and how the agents' pods get it
//	retain.go     what volumes use although the resource no longer names it
//	move.go       delays pools that replace others
//	configmap.go  which settings the ConfigMap may have
//	tune.go       what these settings change
package layout
