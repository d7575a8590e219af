package apiserver

import (
	"errors"
	"maps"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaults are the fields that a new or changed object has if the client does not set them.
var defaults = map[string]Object{
	"persistentvolumeclaims": {"spec": Object{"volumeMode": "Filesystem"}},
	"persistentvolumes": {"spec": Object{"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain",
		"hostPath": Object{"type": ""}}},
	"pods":           {"spec": Object{"terminationGracePeriodSeconds": int64(30), "restartPolicy": "Always"}},
	"secrets":        {"type": "Opaque"},
	"storageclasses": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}

// setDefaults sets fields that are absent in objects that are not.
func setDefaults(o, defaults Object) {
	for key, value := range defaults {
		if in, ok := value.(Object); ok {
			setDefaults(at[Object](o, key), in)
		} else if o != nil && o[key] == nil {
			o[key] = value
		}
	}
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

// invalid returns the error 422.
func (c *call) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(c.table.gvk().GroupKind(), c.Name, errs)
}

// validate refuses objects that the real server would refuse. old is nil for a creation.
func (c *call) validate(old, next Object) error {
	var errs field.ErrorList
	path, after := field.NewPath("metadata"), &unstructured.Unstructured{Object: next}
	if old == nil {
		name := apivalidation.NameIsDNSSubdomain
		if strings.HasPrefix(c.table.Version, "rbac.") {
			name = func(string, bool) []string { return nil }
		}
		errs = apivalidation.ValidateObjectMetaAccessor(after, c.table.has(Namespaced), name, path)
	} else {
		errs = apivalidation.ValidateObjectMetaAccessorUpdate(after, &unstructured.Unstructured{Object: old}, path)
	}
	for _, f := range immutable[c.table.Name] {
		if is := at[any](next, f); old != nil && !reflect.DeepEqual(is, at[any](old, f)) {
			errs = append(errs, field.Invalid(field.NewPath(f), is, apivalidation.FieldImmutableErrorMsg))
		}
	}
	switch {
	case c.table.Name == "events":
		errs = append(errs, c.validateEvent(old, next)...)
	case c.Subresource != "":
	case c.table.Name == "persistentvolumes":
		errs = append(errs, validatePV(old, next)...)
	case c.table.Name == "persistentvolumeclaims":
		errs = append(errs, validateClaim(old, next)...)
	}
	if len(errs) > 0 {
		return c.invalid(errs...)
	}
	return c.mayGrow(old, next)
}

// source returns the volume source of a PV.
func source(pv Object) Object {
	s := maps.Clone(at[Object](pv, "spec"))
	set(s, nil, "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
		"storageClassName", "volumeAttributesClassName", "volumeMode")
	return s
}

func validatePV(old, pv Object) (errs field.ErrorList) {
	path := field.NewPath("spec")
	size := quantity(pv, "spec.capacity")
	if size.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("capacity"), size.String(), "must be greater than zero"))
	}
	if len(list(pv, "spec.accessModes")) == 0 || len(source(pv)) == 0 {
		errs = append(errs, field.Required(path, "must have access modes, and specify a volume type"))
	}
	affinity := at[any](pv, "spec.nodeAffinity")
	if at[any](pv, "spec.local") != nil && affinity == nil {
		errs = append(errs, field.Required(path.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	if old != nil && !reflect.DeepEqual(source(old), source(pv)) {
		errs = append(errs, field.Forbidden(path.Child("persistentvolumesource"), "is immutable after creation"))
	}
	if before := at[any](old, "spec.nodeAffinity"); before != nil && !reflect.DeepEqual(before, affinity) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), affinity, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

// quantity returns the storage of a list of resources.
func quantity(o Object, path string) resource.Quantity {
	q, err := resource.ParseQuantity(text(o, path+".storage"))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

func validateClaim(old, claim Object) (errs field.ErrorList) {
	path := field.NewPath("spec")
	request, before := quantity(claim, "spec.resources.requests"), quantity(old, "spec.resources.requests")
	if len(list(claim, "spec.accessModes")) == 0 || request.Sign() <= 0 {
		errs = append(errs, field.Required(path, "needs an access mode and a size"))
	}
	if old == nil {
		return errs
	}
	was, is := maps.Clone(at[Object](old, "spec")), maps.Clone(at[Object](claim, "spec"))
	for _, once := range []string{"volumeName", "storageClassName"} {
		if was[once] == nil {
			set(is, was, once)
		}
	}
	if text(claim, "status.phase") == "Bound" {
		set(is, was, "resources")
	}
	if !reflect.DeepEqual(was, is) {
		errs = append(errs, field.Forbidden(path,
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	if request.Cmp(before) < 0 && request.Cmp(quantity(old, "status.capacity")) <= 0 {
		errs = append(errs, field.Forbidden(path.Child("resources"), "field can not be less than status.capacity"))
	}
	return errs
}

// mayGrow refuses a larger request of a claim whose class does not allow it.
func (c *call) mayGrow(old, claim Object) error {
	size := quantity(claim, "spec.resources.requests")
	if c.table.Name != "persistentvolumeclaims" || old == nil || size.Cmp(quantity(old, "spec.resources.requests")) <= 0 {
		return nil
	}
	class := c.server.object(c.server.tables["storageclasses"], "/"+text(claim, "spec.storageClassName"))
	if class != nil && at[bool](class.object, "allowVolumeExpansion") {
		return nil
	}
	return apierrors.NewForbidden(c.table.group(), c.Name, errors.New("only dynamically provisioned pvc can be resized "+
		"and the storageclass that provisions the pvc must support resize"))
}

// validateEvent knows the namespace, the series and the length of the note. Events without a time of
// their own, and those of the older version, may have any note.
func (c *call) validateEvent(old, e Object) (errs field.ErrorList) {
	ns, timed := text(e, "involvedObject.namespace"), text(e, "eventTime") != ""
	cluster := c.Namespace == "default" || timed && c.Namespace == "kube-system"
	if ns == "" && !cluster || ns != "" && ns != c.Namespace && !timed {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), ns, "does not match event.namespace"))
	}
	for _, f := range []string{"reportingComponent", "reportingInstance", "action", "reason"} {
		if timed && text(e, f) == "" {
			errs = append(errs, field.Required(field.NewPath(f), ""))
		}
	}
	if timed && len(text(e, "message")) > 1024 {
		errs = append(errs, field.Invalid(field.NewPath("message"), "", "can have at most 1024 characters"))
	}
	if !c.eventsV1() {
		return errs
	}
	if !timed {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if series := at[Object](e, "series"); series != nil && number(series, "count") < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if old != nil && !sameApartFrom(old, e, "metadata", "series") {
		errs = append(errs, field.Invalid(field.NewPath("message"), "", apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}
