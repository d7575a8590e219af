package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (c *call) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(c.version, c.table.Kind)
}

// list answers with the objects that the selectors choose.
func (c *call) list() (answer, error) {
	items, m, err := c.chosen()
	if err != nil {
		return answer{}, err
	}
	return answer{code: http.StatusOK, other: c.encodeList(items, m)}, nil
}

// chosen returns the objects of a list or of its next page, and the metadata of the list.
func (c *call) chosen() ([]*stored, Object, error) {
	wanted, err := c.selector()
	if err != nil {
		return nil, nil, err
	}
	p, limit, err := c.pageOf()
	if err != nil {
		return nil, nil, err
	}
	c.server.mu.Lock()
	all, rv, err := c.snapshot(p)
	c.server.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(o *stored) bool { return o.key <= p.Start || !wanted(o) })
	m := Object{"resourceVersion": strconv.FormatInt(rv, 10)}
	if left := len(all) - limit; limit > 0 && left > 0 {
		all = all[:limit]
		m["continue"] = page{RV: rv, Start: all[limit-1].key}.token()
		if c.query.Get("labelSelector") == "" && c.query.Get("fieldSelector") == "" {
			m["remainingItemCount"] = left
		}
	}
	return all, m, nil
}

// encodeList joins the encoded items.
func (c *call) encodeList(items []*stored, m Object) json.RawMessage {
	version, kind := c.typeMeta()
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"%sList","apiVersion":%q,"metadata":%s,"items":[`, kind, version, mustMarshal(m))
	for i, o := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		if c.partial() || c.table.has(Custom) {
			b.Write(c.view(o))
		} else {
			b.Write(c.item(o))
		}
	}
	b.WriteString("]}")
	return b.Bytes()
}

// selectable are the fields that field selectors may use beside metadata.name and metadata.namespace.
var selectable = map[string][]string{
	"pods":       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP", "status.nominatedNodeName"},
	"nodes":      {"spec.unschedulable"},
	"namespaces": {"status.phase"},
	"secrets":    {"type"},
	"events": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
}

// labelMap is the labels of an object.
type labelMap Object

// Has, Get and Lookup implement labels.Labels.
func (l labelMap) Has(key string) bool              { _, ok := l[key]; return ok }
func (l labelMap) Get(key string) string            { return text(Object(l), key) }
func (l labelMap) Lookup(key string) (string, bool) { _, ok := l[key]; return text(Object(l), key), ok }

// selector returns which objects the request is about. The function is false for nil.
func (c *call) selector() (func(*stored) bool, error) {
	byLabel, err := labels.Parse(c.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse labelSelector: %v", err))
	}
	byField, err := fields.ParseSelector(c.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse fieldSelector: %v", err))
	}
	wanted := byField.Requirements()
	for i, r := range wanted {
		if c.foreignEvent() {
			wanted[i].Field = strings.Replace(r.Field, "regarding.", "involvedObject.", 1)
		}
		known := r.Field == "metadata.name" || r.Field == "metadata.namespace" && c.table.has(Namespaced) ||
			slices.Contains(selectable[c.table.Name], wanted[i].Field)
		if !known {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	if c.Name != "" {
		wanted = append(wanted, fields.Requirement{Field: "metadata.name", Value: c.Name})
	}
	return func(o *stored) bool {
		if o == nil || c.Namespace != "" && o.ns != c.Namespace {
			return false
		}
		if have, _ := at(o.object, "metadata", "labels").(Object); !byLabel.Empty() && !byLabel.Matches(labelMap(have)) {
			return false
		}
		for _, r := range wanted {
			if (fieldOf(o.object, r.Field) == r.Value) != (r.Operator != "!=") {
				return false
			}
		}
		return true
	}, nil
}

// fieldOf returns a field as field selectors compare it.
func fieldOf(o Object, path string) string {
	if path == "source" {
		if component := text(o, "source", "component"); component != "" {
			return component
		}
		return text(o, "reportingComponent")
	}
	switch v := at(o, strings.Split(path, ".")...).(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	}
	if path == "spec.unschedulable" {
		return "false"
	}
	return ""
}
