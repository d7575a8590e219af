package apiserver

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// invalid returns the error 422.
func (c *call) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(c.table.kind(), c.Name, errs)
}

// validate refuses objects that the real server would refuse. old is nil for a creation, next for a
// deletion.
func (c *call) validate(old, next Object) error {
	if next == nil {
		return nil
	}
	if c.Name == "" {
		return c.invalid(field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
	}
	return nil
}
