package apiserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selectable are the fields of field selectors, beside name and namespace.
var selectable = map[string][]string{
	"events": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
	"namespaces": {"status.phase"},
	"nodes":      {"spec.unschedulable"},
	"pods":       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"},
	"secrets":    {"type"},
}

// labelMap is the labels of an object.
type labelMap Object

// Has implements labels.Labels.
func (l labelMap) Has(key string) bool { _, ok := l[key]; return ok }

// Get implements labels.Labels.
func (l labelMap) Get(key string) string { return text(Object(l), key) }

// Lookup implements labels.Labels.
func (l labelMap) Lookup(key string) (string, bool) { return l.Get(key), l.Has(key) }

// selector returns which objects the request is about. nil is none of them.
func (c *call) selector() (func(*stored) bool, error) {
	byLabel, badLabels := labels.Parse(c.query.Get("labelSelector"))
	byField, badFields := fields.ParseSelector(c.query.Get("fieldSelector"))
	if badLabels != nil || badFields != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse the selectors: %v %v", badLabels, badFields))
	}
	wanted := byField.Requirements()
	for i, r := range wanted {
		if c.eventsV1() {
			wanted[i].Field = strings.Replace(r.Field, "regarding.", "involvedObject.", 1)
		}
		if r.Field != "metadata.name" && !(r.Field == "metadata.namespace" && c.table.has(Namespaced)) &&
			!slices.Contains(selectable[c.table.Name], wanted[i].Field) {
			return nil, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	if c.Name != "" {
		wanted = append(wanted, fields.Requirement{Field: "metadata.name", Value: c.Name})
	}
	return func(o *stored) bool {
		if o == nil || c.Namespace != "" && o.ns != c.Namespace {
			return false
		}
		if !byLabel.Empty() && !byLabel.Matches(labelMap(at[Object](o.object, "metadata", "labels"))) {
			return false
		}
		return !slices.ContainsFunc(wanted, func(r fields.Requirement) bool {
			return (selected(o.object, r.Field) == r.Value) == (r.Operator == "!=")
		})
	}, nil
}

// selected returns a field as field selectors compare it.
func selected(o Object, path string) string {
	switch path {
	case "source":
		if component := text(o, "source", "component"); component != "" {
			return component
		}
		return text(o, "reportingComponent")
	case "spec.unschedulable":
		return strconv.FormatBool(at[bool](o, "spec", "unschedulable"))
	}
	return text(o, strings.Split(path, ".")...)
}
