package claims

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is one watch of a filter. It sends the filtered events of the source, and
// between them those of the claims to retry.
type stream struct {
	filter *filter
	source watch.Interface
	out    chan watch.Event
	done   chan struct{}
	once   sync.Once
	// version is the last resourceVersion of the source. A claim that is sent again has an older
	// one, and the reader would resume the watch from there, so a bookmark with version follows it.
	version string
}

func (f *filter) stream(source watch.Interface) *stream {
	s := &stream{filter: f, source: source, out: make(chan watch.Event), done: make(chan struct{})}
	go s.run()
	return s
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.out }

// Stop implements watch.Interface. It may be called more than once.
func (s *stream) Stop() {
	s.once.Do(func() {
		close(s.done)
		s.source.Stop()
	})
}

func (s *stream) run() {
	defer close(s.out)
	defer s.source.Stop()
	for {
		select {
		case <-s.done:
			return
		case e, ok := <-s.source.ResultChan():
			if !ok {
				return
			}
			if m, ok := e.Object.(metav1.Object); ok {
				s.version = m.GetResourceVersion()
			}
			if e, keep := s.filter.apply(e); keep && !s.send(e) {
				return
			}
		case <-s.filter.wake:
			if !s.sendRetries() {
				return
			}
		}
	}
}

func (s *stream) sendRetries() bool {
	events := s.filter.retryEvents()
	for _, e := range events {
		if !s.send(e) {
			return false
		}
	}
	if len(events) == 0 || s.version == "" {
		return true
	}
	return s.send(watch.Event{Type: watch.Bookmark, Object: &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: s.version},
	}})
}

// send blocks until the reader takes the event. It returns false after Stop.
func (s *stream) send(e watch.Event) bool {
	select {
	case s.out <- e:
		return true
	case <-s.done:
		return false
	}
}
