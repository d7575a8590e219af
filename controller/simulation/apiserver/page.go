package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// page is where a list goes on: after a key, in the state of a resource version.
type page struct {
	RV    int64  `json:"rv"`
	Start string `json:"start"`
}

// pageOf reads the parameters of a list. The resource version is 0 for the newest state.
func (c *call) pageOf() (p page, limit int, err error) {
	rv, match := c.query.Get("resourceVersion"), c.query.Get("resourceVersionMatch")
	limit, _ = strconv.Atoi(c.query.Get("limit"))
	if token := c.query.Get("continue"); token != "" {
		if rv != "" && rv != "0" {
			return p, 0, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err == nil {
			err = json.Unmarshal(raw, &p)
		}
		if err != nil {
			return p, 0, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		return p, limit, nil
	}
	version, err := strconv.ParseUint(rv, 10, 63)
	switch {
	case rv == "" && match != "":
		return p, 0, apierrors.NewBadRequest("resourceVersionMatch is forbidden unless resourceVersion is provided")
	case rv != "" && err != nil:
		return p, 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q: %v", rv, err))
	case rv == "0":
		return p, 0, nil // from the cache, which knows no pages
	case match == "Exact" || limit > 0 && match == "" && rv != "":
		p.RV = int64(version)
	}
	return p, limit, nil
}

// token encodes where the next page begins.
func (p page) token() string { return base64.RawURLEncoding.EncodeToString(mustMarshal(p)) }

// snapshot returns all objects as they were at a resource version, 0 for now, and that version. The
// caller holds the server's lock.
func (c *call) snapshot(p page) ([]*stored, int64, error) {
	s, t := c.server, c.table
	switch {
	case p.RV == 0 || p.RV == s.rv:
		return t.all(), s.rv, nil
	case p.RV > s.rv:
		return nil, 0, tooLarge(p.RV, s.rv)
	case p.RV < max(s.floor, t.lost) && p.Start != "":
		return nil, 0, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter.")
	case p.RV < max(s.floor, t.lost):
		return nil, 0, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
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

// tooLarge is the error for a resource version of the future.
func tooLarge(want, have int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"})
	return err
}
