package apiserver

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// page is where a list goes on: after a key, in the state of a resource version.
type page struct {
	RV    int64  `json:"rv"`
	Start string `json:"start"`
}

// list answers with the objects that the selectors choose.
func (c *call) list() (answer, error) {
	items, m, err := c.chosen()
	if err != nil {
		return answer{}, err
	}
	return answer{code: http.StatusOK, value: c.viewList(items, m)}, nil
}

// chosen returns the objects of a list or of its next page, and the metadata of the list.
func (c *call) chosen() ([]*stored, Object, error) {
	wanted, err := c.selector()
	if err != nil {
		return nil, nil, err
	}
	p, limit, err := c.page()
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
		m["continue"] = base64.RawURLEncoding.EncodeToString(encode(page{rv, all[limit-1].key}))
		if c.query.Get("labelSelector")+c.query.Get("fieldSelector") == "" {
			m["remainingItemCount"] = left
		}
	}
	return all, m, nil
}

// page reads the parameters of a list.
func (c *call) page() (p page, limit int, err error) {
	rv, match := c.query.Get("resourceVersion"), c.query.Get("resourceVersionMatch")
	limit, _ = strconv.Atoi(c.query.Get("limit"))
	version, badVersion := strconv.ParseInt(rv, 10, 64)
	token := c.query.Get("continue")
	raw, badToken := base64.RawURLEncoding.DecodeString(token)
	switch {
	case token != "" && rv != "" && rv != "0":
		return p, 0, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	case token != "":
		if badToken == nil {
			badToken = utiljson.Unmarshal(raw, &p)
		}
		if badToken != nil {
			return p, 0, apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", badToken))
		}
		return p, limit, nil
	case match != "" && rv == "":
		return p, 0, badOptions("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
	case rv != "" && badVersion != nil:
		return p, 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", rv))
	case rv == "0":
		return p, 0, nil // from the cache, which has no pages
	case match == "Exact", match == "" && limit > 0:
		p.RV = version
	}
	return p, limit, nil
}

func badOptions(name, why string) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "",
		field.ErrorList{field.Forbidden(field.NewPath(name), why)})
}

// snapshot returns all objects as they were at the resource version of a page, 0 for now, and that
// version. The caller holds the server's lock.
func (c *call) snapshot(p page) ([]*stored, int64, error) {
	s, t := c.server, c.table
	switch {
	case p.RV == 0 || p.RV == s.rv:
		return t.all(), s.rv, nil
	case p.RV > s.rv:
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", p.RV, s.rv), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
		return nil, 0, err
	case p.RV < max(s.floor, t.lost):
		return nil, 0, apierrors.NewResourceExpired("The provided continue parameter or resource version is too old.")
	}
	then := maps.Clone(t.objects)
	for _, ch := range slices.Backward(t.log) {
		if ch.rv <= p.RV {
			break
		}
		if ch.old != nil {
			then[ch.old.key] = ch.old
		} else {
			delete(then, ch.new.key)
		}
	}
	all := make([]*stored, 0, len(then))
	for _, key := range slices.Sorted(maps.Keys(then)) {
		all = append(all, then[key])
	}
	return all, p.RV, nil
}
