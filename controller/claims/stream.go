package claims

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is one watch of the feed: the source's events, filtered, and between
// them the claims that retry wants to be seen again.
type stream struct {
	feed   *feed
	source watch.Interface
	out    chan watch.Event
	done   chan struct{}
	once   sync.Once
	// version is the last resourceVersion seen. A claim sent again carries an
	// older one, which the reader would take for its place in the stream; a
	// bookmark behind it puts that right.
	version string
}

func (f *feed) stream(source watch.Interface) *stream {
	s := &stream{feed: f, source: source, out: make(chan watch.Event), done: make(chan struct{})}
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
			if e, keep := s.feed.filter(e); keep && !s.send(e) {
				return
			}
		case <-s.feed.wake:
			if !s.sendAgain() {
				return
			}
		}
	}
}

func (s *stream) sendAgain() bool {
	events := s.feed.retries()
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

// send reports whether the reader took the event; false means it has stopped.
func (s *stream) send(e watch.Event) bool {
	select {
	case s.out <- e:
		return true
	case <-s.done:
		return false
	}
}
