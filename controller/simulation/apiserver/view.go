package apiserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func schemaResource(c *call) schema.GroupResource {
	gv, _ := schema.ParseGroupVersion(c.version) // an error leaves it empty
	return gv.WithResource(c.Resource).GroupResource()
}

// partial reports whether the client asks for the metadata alone.
func (c *call) partial() bool { return strings.Contains(c.accept, "as=PartialObjectMetadata") }

// view returns the JSON of an object as the client asks for it.
func (c *call) view(o *stored) []byte {
	version, kind := c.typeMeta()
	return typed(version, kind, c.item(o))
}

// typeMeta returns version and kind of objects in the client's view.
func (c *call) typeMeta() (version, kind string) {
	if c.partial() {
		return "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return c.version, c.table.Kind
}

// item returns the JSON of an object without apiVersion and kind.
func (c *call) item(o *stored) []byte {
	switch {
	case c.partial():
		return mustMarshal(Object{"metadata": o.object["metadata"]})
	case c.foreignEvent():
		event := renamed(o.object, toEventsV1)
		delete(event, "apiVersion")
		delete(event, "kind")
		return mustMarshal(event)
	}
	return o.body
}

// typed puts apiVersion and kind before the other fields.
func typed(version, kind string, body []byte) []byte {
	head := `{"kind":"` + kind + `","apiVersion":"` + version + `"`
	if len(body) > 2 {
		head += ","
	}
	return slices.Concat([]byte(head), body[1:])
}

// toEventsV1 are the fields that events.k8s.io/v1 calls otherwise than v1, in which events are stored.
var toEventsV1 = map[string]string{
	"involvedObject": "regarding", "message": "note", "source": "deprecatedSource", "count": "deprecatedCount",
	"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp",
	"reportingComponent": "reportingController",
}

var fromEventsV1 = func() map[string]string {
	names := map[string]string{}
	for from, to := range toEventsV1 {
		names[to] = from
	}
	return names
}()

// foreignEvent reports whether the client uses the other version of events.
func (c *call) foreignEvent() bool { return c.table.Name == "events" && c.version != c.table.Version }

// renamed returns a copy with other names of its fields.
func renamed(o Object, names map[string]string) Object {
	o = maps.Clone(o)
	for from, to := range names {
		if value, ok := o[from]; ok {
			o[to] = value
			delete(o, from)
		}
	}
	return o
}

// mustMarshal encodes what was decoded before.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
