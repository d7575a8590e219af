package apiserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// page is where a list goes on: after a key, in the state of a resource version.
type page struct {
	RV    int64  `json:"rv"`
	Start string `json:"start"`
}

// list answers with the objects that the selectors choose, or the next page of them. It calls each
// with each.
func (c *call) list(each func(*stored) error) (answer, error) {
	wanted, err := c.selector()
	if err != nil {
		return answer{}, err
	}
	p, limit, err := c.page()
	if err != nil {
		return answer{}, err
	}
	c.server.mu.Lock()
	all, rv, err := c.snapshot(p.RV)
	c.server.mu.Unlock()
	if err != nil {
		return answer{}, err
	}
	all = slices.DeleteFunc(all, func(o *stored) bool { return o.key <= p.Start || !wanted(o) })
	m := Object{"resourceVersion": strconv.FormatInt(rv, 10)}
	if left := len(all) - limit; limit > 0 && left > 0 {
		all = all[:limit]
		m["continue"] = base64.RawURLEncoding.EncodeToString(encode(page{rv, all[limit-1].key}))
		if c.query.Get("labelSelector")+c.query.Get("fieldSelector") == "" {
			m["remainingItemCount"] = left
		}
	}
	for _, o := range all {
		if err := each(o); err != nil {
			return answer{}, err
		}
	}
	return answer{code: http.StatusOK, value: c.viewList(all, m)}, nil
}

// page reads the parameters of a list.
func (c *call) page() (p page, limit int, err error) {
	rv, match, token := c.query.Get("resourceVersion"), c.query.Get("resourceVersionMatch"), c.query.Get("continue")
	limit, _ = strconv.Atoi(c.query.Get("limit"))
	version, err := strconv.ParseInt("0"+rv, 10, 64)
	switch {
	case token != "" && rv != "" && rv != "0":
		err = errors.New("specifying resource version is not allowed when using continue")
	case token != "":
		var raw []byte
		if raw, err = base64.RawURLEncoding.DecodeString(token); err == nil {
			err = utiljson.Unmarshal(raw, &p)
		}
	case match != "" && rv == "":
		return p, 0, badOptions("resourceVersionMatch is forbidden unless resourceVersion is provided")
	case rv == "0":
		limit = 0 // from the cache, which has no pages
	case match == "Exact", match == "" && limit > 0:
		p.RV = version
	}
	if err != nil {
		err = bad("%v", err)
	}
	return p, limit, err
}

func badOptions(why string) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "",
		field.ErrorList{field.Forbidden(field.NewPath("resourceVersionMatch"), why)})
}

// snapshot returns all objects as they were at a resource version, 0 for now, and that version. The
// caller holds the server's lock.
func (c *call) snapshot(at int64) ([]*stored, int64, error) {
	s, t := c.server, c.table
	switch {
	case at == 0 || at == s.rv:
		return t.all(), s.rv, nil
	case at > s.rv:
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", at, s.rv), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		return nil, 0, err
	case at < max(s.floor, t.lost):
		return nil, 0, apierrors.NewResourceExpired("The provided continue parameter or resource version is too old.")
	}
	then := maps.Clone(t.objects)
	for _, ch := range slices.Backward(t.log) {
		if ch.rv > at && ch.old != nil {
			then[ch.old.key] = ch.old
		} else if ch.rv > at {
			delete(then, ch.new.key)
		}
	}
	all := make([]*stored, 0, len(then))
	for _, key := range slices.Sorted(maps.Keys(then)) {
		all = append(all, then[key])
	}
	return all, at, nil
}

// selectable are the fields of field selectors, beside name and namespace.
var selectable = map[string]string{
	"events": "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid reason source type " +
		"involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reportingComponent",
	"namespaces": "status.phase",
	"nodes":      "spec.unschedulable",
	"pods":       "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP",
	"secrets":    "type",
}

// selector returns which objects the request is about. nil is none of them.
func (c *call) selector() (func(*stored) bool, error) {
	byLabel, badLabels := labels.Parse(c.query.Get("labelSelector"))
	byField, badFields := fields.ParseSelector(c.query.Get("fieldSelector"))
	if badLabels != nil || badFields != nil {
		return nil, bad("unable to parse the selectors: %v %v", badLabels, badFields)
	}
	wanted := byField.Requirements()
	for i, r := range wanted {
		if c.eventsV1() {
			wanted[i].Field = strings.Replace(r.Field, "regarding.", "involvedObject.", 1)
		}
		if r.Field != "metadata.name" && (r.Field != "metadata.namespace" || !c.table.has(Namespaced)) &&
			!slices.Contains(strings.Fields(selectable[c.table.Name]), wanted[i].Field) {
			return nil, bad("field label not supported: %s", r.Field)
		}
	}
	if c.Name != "" {
		wanted = append(wanted, fields.Requirement{Field: "metadata.name", Value: c.Name})
	}
	return func(o *stored) bool {
		if o == nil || c.Namespace != "" && o.ns != c.Namespace {
			return false
		}
		if !byLabel.Empty() && !byLabel.Matches(stringMap(o.object, "metadata.labels")) {
			return false
		}
		return !slices.ContainsFunc(wanted, func(r fields.Requirement) bool {
			return (selected(o.object, r.Field) == r.Value) == (r.Operator == "!=")
		})
	}, nil
}

func stringMap(o Object, path string) labels.Set {
	set := labels.Set{}
	for key, value := range at[Object](o, path) {
		set[key], _ = value.(string)
	}
	return set
}

// selected returns a field as field selectors compare it.
func selected(o Object, path string) string {
	switch path {
	case "source":
		if component := text(o, "source.component"); component != "" {
			return component
		}
		return text(o, "reportingComponent")
	case "spec.unschedulable":
		return strconv.FormatBool(at[bool](o, "spec.unschedulable"))
	}
	return text(o, path)
}

// toEventsV1 are the fields that events.k8s.io/v1 names otherwise than v1, in which events are stored.
var toEventsV1 = map[string]string{"involvedObject": "regarding", "message": "note", "source": "deprecatedSource",
	"count": "deprecatedCount", "firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp",
	"reportingComponent": "reportingController"}

// eventsV1 reports whether the client uses the version of events in which they are not stored.
func (c *call) eventsV1() bool { return c.table.Name == "events" && c.version != c.table.Version }

// convert returns the object in the client's version, or, if back is set, in the stored one.
func (c *call) convert(o Object, back bool) Object {
	if !c.eventsV1() {
		return o
	}
	o = maps.Clone(o)
	o["apiVersion"] = c.version
	for from, to := range toEventsV1 {
		if back {
			from, to = to, from
		}
		if value, ok := o[from]; ok {
			o[to] = value
			delete(o, from)
		}
	}
	return o
}

// partial reports whether the client asks for the metadata alone.
func (c *call) partial() bool {
	return strings.Contains(c.req.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// head begins the JSON of an object or a list in the view of the client.
func (c *call) head(suffix string) []byte {
	version, kind := c.version, c.table.Kind
	if c.partial() {
		version, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return fmt.Appendf(nil, `{"kind":"%s%s","apiVersion":"%s",`, kind, suffix, version)
}

// view returns the JSON of an object in the view of the client.
func (c *call) view(o *stored) []byte { return slices.Concat(c.head(""), c.item(o)[1:]) }

// item returns the JSON of an object without apiVersion and kind.
func (c *call) item(o *stored) []byte {
	switch {
	case c.partial():
		return encode(Object{"metadata": o.object["metadata"]})
	case c.eventsV1():
		return body(c.convert(o.object, false))
	}
	return o.body
}

// body encodes an object without apiVersion and kind, which items of lists do not have.
func body(o Object) []byte {
	o = maps.Clone(o)
	set(o, nil, "apiVersion", "kind")
	return encode(o)
}

// viewList returns the JSON of a list.
func (c *call) viewList(items []*stored, m Object) []byte {
	b := bytes.NewBuffer(c.head("List"))
	fmt.Fprintf(b, `"metadata":%s,"items":[`, encode(m))
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

// encode encodes a value that has JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the program is wrong
	}
	return b
}
