package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// oneNode is a NodeLister that always returns the one node, without a request.
type oneNode struct{ node *corev1.Node }

// Get returns the node, whatever the name.
func (o oneNode) Get(string) (*corev1.Node, error) { return o.node, nil }

// List returns the node.
func (o oneNode) List(labels.Selector) ([]*corev1.Node, error) { return []*corev1.Node{o.node}, nil }
