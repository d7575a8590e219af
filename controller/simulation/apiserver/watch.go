package apiserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is the body of a watch. The goroutine that reads it does all the work.
type stream struct {
	*call
	ctx    context.Context //nolint:containedctx // ends when the client closes the body
	cancel context.CancelFunc
	chosen func(*stored) bool
	from   int64 // the resource version of the last event
	todo   []change
	rest   []byte // of the event that is being read
	end    *time.Timer
	done   bool
}

// watch begins a stream.
func (c *call) watch(req *http.Request) (*http.Response, error) {
	s := c.server
	if c.table = s.find(c.version, c.Resource); c.table == nil {
		return c.fail(req, http.StatusNotFound)
	}
	chosen, err := c.selector()
	if err != nil {
		return c.respond(req, answer{}, err)
	}
	w := &stream{call: c, chosen: chosen}
	initial := c.query.Get("sendInitialEvents") == "true"
	s.mu.Lock()
	w.from, _ = strconv.ParseInt(c.query.Get("resourceVersion"), 10, 64)
	old := w.from > 0 && w.from < max(s.floor, c.table.lost)
	if w.from == 0 || initial {
		w.from = s.rv
		for _, o := range c.table.all() {
			w.todo = append(w.todo, change{rv: s.rv, new: o})
		}
	}
	s.mu.Unlock()
	if old && !initial {
		return c.respond(req, answer{}, expired())
	}
	if initial {
		w.todo = append(w.todo, change{rv: w.from}) // the bookmark
	}
	seconds, _ := strconv.Atoi(c.query.Get("timeoutSeconds"))
	if seconds <= 0 {
		seconds = 1800
	}
	w.end = time.NewTimer(time.Duration(seconds) * time.Second)
	w.ctx, w.cancel = context.WithCancel(req.Context())
	return response(req, http.StatusOK, w, -1), nil
}

// expired is the error of a client that is behind the history.
func expired() *apierrors.StatusError {
	return apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
}

// Close implements io.Closer.
func (w *stream) Close() error {
	w.cancel()
	w.end.Stop()
	return nil
}

// Read implements io.Reader.
func (w *stream) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		if w.done {
			return 0, io.EOF
		}
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// next encodes one event into rest, or waits for changes.
func (w *stream) next() error {
	if err := w.server.gate(w.Who); err != nil {
		return err
	}
	for len(w.todo) > 0 {
		ch := w.todo[0]
		if err := w.late(ch); err != nil {
			return err
		}
		w.todo, w.from = w.todo[1:], ch.rv
		if w.rest = w.event(ch); w.rest != nil {
			return w.server.gate(w.Who)
		}
	}
	s := w.server
	s.mu.Lock()
	first, _ := slices.BinarySearchFunc(w.table.log, w.from+1, func(ch change, rv int64) int { return int(ch.rv - rv) })
	w.todo = w.table.log[first:len(w.table.log):len(w.table.log)]
	wake, rv, behind := w.table.wake, s.rv, w.from < w.table.lost
	s.mu.Unlock()
	if behind {
		w.done, w.rest = true, frame(watch.Error, mustMarshal(expired().Status()))
		return nil
	}
	if len(w.todo) > 0 {
		return nil
	}
	select {
	case <-wake:
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-w.end.C:
		w.done = true
		if w.query.Get("allowWatchBookmarks") == "true" {
			w.rest = w.bookmark(rv, nil)
		}
	}
	return nil
}

// late waits until the change is as old as the client's lag.
func (w *stream) late(ch change) error {
	if w.server.Lag == nil || ch.at.IsZero() {
		return nil
	}
	if d := time.Until(ch.at.Add(w.server.Lag(w.Who))); d > 0 {
		return sleep(w.ctx, d)
	}
	return nil
}

// event returns the JSON of a change in the view of the client, or nil if the client does not see it.
func (w *stream) event(ch change) []byte {
	if ch.old == nil && ch.new == nil && ch.gone == nil {
		return w.bookmark(ch.rv, Object{metav1.InitialEventsAnnotationKey: "true"})
	}
	was, is := w.chosen(ch.old), w.chosen(ch.new)
	switch {
	case was && is:
		return w.encode(watch.Modified, ch.new)
	case is:
		return w.encode(watch.Added, ch.new)
	case was && ch.gone != nil:
		return w.encode(watch.Deleted, ch.gone)
	case was:
		return w.encode(watch.Deleted, ch.old.withVersion(ch.rv))
	}
	return nil
}

func (w *stream) encode(event watch.EventType, o *stored) []byte {
	return frame(event, w.view(o))
}

func frame(event watch.EventType, body []byte) []byte {
	return slices.Concat([]byte(`{"type":"`+string(event)+`","object":`), body, []byte("}\n"))
}

// bookmark returns an event without an object.
func (w *stream) bookmark(rv int64, annotations Object) []byte {
	m := Object{"resourceVersion": strconv.FormatInt(rv, 10)}
	if annotations != nil {
		m["annotations"] = annotations
	}
	version, kind := w.typeMeta()
	return frame(watch.Bookmark, typed(version, kind, mustMarshal(Object{"metadata": m})))
}
