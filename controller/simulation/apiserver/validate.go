package apiserver

import (
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// invalid returns the error 422.
func (c *call) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(c.table.gvk().GroupKind(), c.Name, errs)
}

// validate refuses objects that the real server would refuse. old is nil for a creation.
func (c *call) validate(old, next Object) error {
	path := field.NewPath("metadata")
	namespaced := c.table.has(Namespaced)
	var errs field.ErrorList
	if old == nil {
		name := apivalidation.NameIsDNSSubdomain
		if strings.HasPrefix(c.table.Version, "rbac.") {
			name = func(name string, prefix bool) []string { return apivalidation.ValidateNamespaceName("a", prefix) }
		}
		errs = apivalidation.ValidateObjectMetaAccessor(&unstructured.Unstructured{Object: next}, namespaced, name, path)
	} else {
		errs = apivalidation.ValidateObjectMetaAccessorUpdate(&unstructured.Unstructured{Object: next}, &unstructured.Unstructured{Object: old}, path)
	}
	for _, fixed := range immutable[c.table.Name] {
		before, after := at[any](old, strings.Split(fixed, ".")...), at[any](next, strings.Split(fixed, ".")...)
		if old != nil && !reflect.DeepEqual(before, after) {
			errs = append(errs, field.Invalid(field.NewPath(fixed), after, apivalidation.FieldImmutableErrorMsg))
		}
	}
	if c.Subresource == "" {
		if rule := rules[c.table.Name]; rule != nil {
			errs = append(errs, rule(c, old, next)...)
		}
	}
	if len(errs) > 0 {
		return c.invalid(errs...)
	}
	return nil
}

// immutable are the fields that never change, by resource.
var immutable = map[string][]string{
	"clusterrolebindings":  {"roleRef"},
	"csidrivers":           {"spec.attachRequired", "spec.volumeLifecycleModes"},
	"csistoragecapacities": {"nodeTopology", "storageClassName"},
	"daemonsets":           {"spec.selector"},
	"deployments":          {"spec.selector"},
	"persistentvolumes":    {"spec.volumeMode"},
	"rolebindings":         {"roleRef"},
	"secrets":              {"type"},
	"storageclasses":       {"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
}

// rules are the rules of one resource.
var rules = map[string]func(c *call, old, next Object) field.ErrorList{
	"daemonsets":             validatePods,
	"deployments":            validatePods,
	"events":                 validateEvent,
	"persistentvolumeclaims": validateClaim,
	"persistentvolumes":      validatePV,
}

// notSources are the fields of a PV's spec that are no volume source.
var notSources = map[string]bool{"accessModes": true, "capacity": true, "claimRef": true, "mountOptions": true, "nodeAffinity": true,
	"persistentVolumeReclaimPolicy": true, "storageClassName": true, "volumeAttributesClassName": true, "volumeMode": true}

// source returns the volume source of a PV.
func source(pv Object) Object {
	source := Object{}
	spec, _ := pv["spec"].(Object)
	for key, value := range spec {
		if !notSources[key] {
			source[key] = value
		}
	}
	return source
}

func validatePV(_ *call, old, pv Object) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if len(list(pv, "spec", "accessModes")) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	if text(pv, "spec", "capacity", "storage") == "" {
		errs = append(errs, field.Required(path.Child("capacity"), ""))
	} else if size := quantity(pv, "spec", "capacity"); size.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("capacity").Key("storage"), size.String(), "must be greater than zero"))
	}
	switch n := len(source(pv)); {
	case n == 0:
		errs = append(errs, field.Required(path, "must specify a volume type"))
	case n > 1:
		errs = append(errs, field.Forbidden(path, "may not specify more than 1 volume type"))
	}
	local := at[any](pv, "spec", "local") != nil
	if local && at[any](pv, "spec", "nodeAffinity", "required") == nil {
		errs = append(errs, field.Required(path.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	if old == nil {
		return errs
	}
	if !reflect.DeepEqual(source(old), source(pv)) {
		errs = append(errs, field.Forbidden(path.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	if affinity := at[any](old, "spec", "nodeAffinity"); affinity != nil && !reflect.DeepEqual(affinity, at[any](pv, "spec", "nodeAffinity")) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), at[any](pv, "spec", "nodeAffinity"), apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

// quantity returns the storage of a list of resources.
func quantity(o Object, path ...string) resource.Quantity {
	q, err := resource.ParseQuantity(text(o, append(path, "storage")...))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

func validateClaim(_ *call, old, claim Object) (errs field.ErrorList) {
	path := field.NewPath("spec")
	request := quantity(claim, "spec", "resources", "requests")
	if len(list(claim, "spec", "accessModes")) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	if request.Sign() <= 0 {
		errs = append(errs, field.Required(path.Child("resources").Key("storage"), ""))
	}
	if old == nil {
		return errs
	}
	before, after := copied(at[Object](old, "spec")), copied(at[Object](claim, "spec"))
	for _, once := range []string{"volumeName", "storageClassName"} {
		if before[once] == nil {
			delete(after, once)
		}
	}
	if text(claim, "status", "phase") == "Bound" {
		delete(before, "resources")
		delete(after, "resources")
	}
	if !reflect.DeepEqual(before, after) {
		errs = append(errs, field.Forbidden(path,
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	requested := quantity(old, "spec", "resources", "requests")
	if request.Cmp(requested) < 0 && request.Cmp(quantity(old, "status", "capacity")) <= 0 {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	return errs
}

// validatePods checks that a workload selects its own pods.
func validatePods(_ *call, _, o Object) field.ErrorList {
	want := at[Object](o, "spec", "selector", "matchLabels")
	have := at[Object](o, "spec", "template", "metadata", "labels")
	set := labels.Set{}
	for key := range want {
		set[key] = text(want, key)
	}
	if len(want) == 0 || !labels.SelectorFromSet(set).Matches(labelMap(have)) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "template", "metadata", "labels"), have, "`selector` does not match template `labels`")}
	}
	return nil
}

// limits are the lengths of an event's fields that only events with an event time are held to.
var limits = []struct {
	field    string
	required bool
	max      int
}{{"reportingComponent", true, 63 + 1 + 253}, {"reportingInstance", true, 128}, {"action", true, 128}, {"reason", true, 128}, {"message", false, 1024}}

func validateEvent(c *call, old, e Object) (errs field.ErrorList) {
	ns, timed := text(e, "involvedObject", "namespace"), e["eventTime"] != nil
	if ns == "" && c.Namespace != "default" && (!timed || c.Namespace != "kube-system") || ns != "" && ns != c.Namespace && !timed {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), ns, "does not match event.namespace"))
	}
	for _, l := range limits {
		switch value := text(e, l.field); {
		case timed && l.required && value == "":
			errs = append(errs, field.Required(field.NewPath(l.field), ""))
		case timed && len(value) > l.max:
			errs = append(errs, field.Invalid(field.NewPath(l.field), "", fmt.Sprintf("can have at most %d characters", l.max)))
		}
	}
	if !c.eventsV1() {
		return errs
	}
	if series, _ := e["series"].(Object); series != nil && (old == nil || !reflect.DeepEqual(series, old["series"])) {
		if count, _ := series["count"].(int64); count < 2 {
			errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
		}
	}
	if kind := text(e, "type"); kind != "Normal" && kind != "Warning" {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+kind))
	}
	for _, f := range []string{"firstTimestamp", "lastTimestamp", "count"} {
		if e[f] != nil && old == nil {
			errs = append(errs, field.Invalid(field.NewPath(f), "", "needs to be unset"))
		}
	}
	if !timed {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	for _, f := range []string{"involvedObject", "reason", "message", "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance"} {
		if old != nil && !reflect.DeepEqual(old[f], e[f]) {
			errs = append(errs, field.Invalid(field.NewPath(f), e[f], apivalidation.FieldImmutableErrorMsg))
		}
	}
	return errs
}
