package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// toEventsV1 are the fields that events.k8s.io/v1 names otherwise than v1, in which events are stored.
var toEventsV1 = map[string]string{"involvedObject": "regarding", "message": "note", "source": "deprecatedSource", "count": "deprecatedCount",
	"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp", "reportingComponent": "reportingController"}

// eventsV1 reports whether the client uses the version of events in which they are not stored.
func (c *call) eventsV1() bool { return c.table.Name == "events" && c.version != c.table.Version }

// toClient returns the object with the names of the client's version.
func (c *call) toClient(o Object) Object {
	if !c.eventsV1() {
		return o
	}
	o = maps.Clone(o)
	o["apiVersion"] = c.version
	for from, to := range toEventsV1 {
		rename(o, from, to)
	}
	return o
}

// fromClient returns the object with the names of the stored version.
func (c *call) fromClient(o Object) Object {
	if !c.eventsV1() {
		return o
	}
	o = maps.Clone(o)
	for to, from := range toEventsV1 {
		rename(o, from, to)
	}
	return o
}

func rename(o Object, from, to string) {
	if value, ok := o[from]; ok {
		o[to] = value
		delete(o, from)
	}
}

// partial reports whether the client asks for the metadata alone.
func (c *call) partial() bool {
	return strings.Contains(c.req.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// typeMeta begins the JSON of an object in the view of the client.
func (c *call) typeMeta(suffix string) string {
	version, kind := c.version, c.table.Kind
	if c.partial() {
		version, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return fmt.Sprintf(`{"kind":"%s%s","apiVersion":"%s",`, kind, suffix, version)
}

// view returns the JSON of an object in the view of the client.
func (c *call) view(o *stored) []byte { return slices.Concat([]byte(c.typeMeta("")), c.item(o)[1:]) }

// item returns the JSON of an object without apiVersion and kind.
func (c *call) item(o *stored) []byte {
	switch {
	case c.partial():
		return encode(Object{"metadata": o.object["metadata"]})
	case c.eventsV1():
		event := c.toClient(o.object)
		delete(event, "apiVersion")
		delete(event, "kind")
		return encode(event)
	}
	return o.body
}

// viewList returns the JSON of a list.
func (c *call) viewList(items []*stored, m Object) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `%s"metadata":%s,"items":[`, c.typeMeta("List"), encode(m))
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
