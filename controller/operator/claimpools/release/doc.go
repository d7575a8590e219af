// Package release ends the holders of pools on claims: a holder whose disk is used never ends, for
// whatever reason it is no longer wanted.
//
//	pass.go     what the steps of a pass share
//	uses.go     reads whether a holder may end
//	release.go  unmounts what is not wanted
//	pods.go     the pods of holders and Jobs, why they do not start
package release
