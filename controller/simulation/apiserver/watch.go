package apiserver

import (
	"context"
	"fmt"
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
	ctx    context.Context // ends when the client closes the body
	cancel context.CancelFunc
	wanted func(*stored) bool
	from   int64 // the resource version of the last event
	todo   []change
	rest   []byte // of the event that is being read
	end    *time.Timer
	done   bool
}

// watch begins a stream. Without a resource version, it begins with all objects.
func (c *call) watch() (answer, error) {
	wanted, err := c.selector()
	if err != nil {
		return answer{}, err
	}
	rv, initial := c.query.Get("resourceVersion"), c.query.Get("sendInitialEvents") == "true"
	from, err := strconv.ParseInt("0"+rv, 10, 64)
	if err != nil {
		return answer{}, err
	}
	if initial && c.query.Get("resourceVersionMatch") != "NotOlderThan" {
		return answer{}, badOptions("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	}
	w := &stream{call: c, wanted: wanted, from: from}
	s := c.server
	s.mu.Lock()
	expired := from > 0 && !initial && from < max(s.floor, c.table.lost)
	if from == 0 || initial {
		w.from = s.rv
		for _, o := range c.table.all() {
			w.todo = append(w.todo, change{rv: s.rv, new: o})
		}
	}
	s.mu.Unlock()
	if initial {
		w.todo = append(w.todo, change{rv: w.from}) // the bookmark
	}
	if expired {
		w.expire()
	}
	seconds, _ := strconv.Atoi(c.query.Get("timeoutSeconds"))
	if seconds <= 0 {
		seconds = 1800
	}
	w.end = time.NewTimer(time.Duration(seconds) * time.Second)
	w.ctx, w.cancel = context.WithCancel(c.req.Context())
	return answer{code: http.StatusOK, value: io.ReadCloser(w)}, nil
}

// expire ends a stream that is behind the history.
func (w *stream) expire() {
	err := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", w.from)).Status()
	err.Kind, err.APIVersion = "Status", "v1"
	w.done, w.rest = true, frame(watch.Error, encode(err))
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

// next puts one event into rest, or waits for changes.
func (w *stream) next() error {
	if len(w.todo) > 0 {
		ch := w.todo[0]
		if lag := w.server.Lag; lag != nil && !ch.at.IsZero() {
			if err := sleep(w.ctx, time.Until(ch.at.Add(lag(w.Who)))); err != nil {
				return err
			}
		}
		w.todo, w.from, w.rest = w.todo[1:], ch.rv, w.event(ch)
		return w.gate()
	}
	s := w.server
	s.mu.Lock()
	first, _ := slices.BinarySearchFunc(w.table.log, w.from+1, func(ch change, rv int64) int { return int(ch.rv - rv) })
	w.todo = w.table.log[first:len(w.table.log):len(w.table.log)]
	wake, rv, behind := w.table.wake, s.rv, w.from < w.table.lost
	s.mu.Unlock()
	switch {
	case behind:
		w.expire()
		return nil
	case len(w.todo) > 0:
		return nil
	}
	select {
	case <-wake:
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-w.end.C:
		if w.done = true; w.query.Get("allowWatchBookmarks") == "true" {
			w.rest = w.bookmark(rv, Object{})
		}
	}
	return w.gate()
}

// event returns the JSON of a change in the view of the client, or nil if the client does not see it.
func (w *stream) event(ch change) []byte {
	was, is := w.wanted(ch.old), w.wanted(ch.new)
	switch {
	case ch.old == nil && ch.new == nil:
		return w.bookmark(ch.rv, Object{"annotations": Object{metav1.InitialEventsAnnotationKey: "true"}})
	case was && is:
		return frame(watch.Modified, w.view(ch.new))
	case is:
		return frame(watch.Added, w.view(ch.new))
	case was && ch.gone != nil:
		return frame(watch.Deleted, w.view(ch.gone))
	case was: // to the client, it is gone as it was last
		o := fork(ch.old.object)
		meta(o)["resourceVersion"] = strconv.FormatInt(ch.rv, 10)
		return frame(watch.Deleted, w.view(&stored{object: o, body: body(o)}))
	}
	return nil
}

func frame(event watch.EventType, body []byte) []byte {
	return slices.Concat([]byte(`{"type":"`+string(event)+`","object":`), body, []byte("}\n"))
}

// bookmark returns an event without an object.
func (w *stream) bookmark(rv int64, m Object) []byte {
	m["resourceVersion"] = strconv.FormatInt(rv, 10)
	return frame(watch.Bookmark, append(w.head(""), encode(Object{"metadata": m})[1:]...))
}
