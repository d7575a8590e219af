package csi

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// loggable prints a message without its secrets. The work is done only where
// the line is really written.
type loggable struct{ message any }

// String implements fmt.Stringer.
func (l loggable) String() string {
	m, ok := l.message.(proto.Message)
	if !ok {
		return fmt.Sprintf("%T", l.message)
	}
	m = proto.Clone(m)
	strip(m.ProtoReflect())
	return fmt.Sprint(m)
}

const stripped = "***stripped***"

// strip replaces every field that the spec marks as a secret, in the message
// and in those it contains. Names of secrets stay: they help, and tell nothing.
func strip(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		secret, _ := proto.GetExtension(f.Options(), csi.E_CsiSecret).(bool)
		switch {
		case secret && f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
				v.Map().Set(k, protoreflect.ValueOfString(stripped))
				return true
			})
		case secret:
			m.Clear(f)
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				strip(v.List().Get(i).Message())
			}
		case !f.IsList() && !f.IsMap() && f.Message() != nil:
			strip(v.Message())
		}
		return true
	})
}
