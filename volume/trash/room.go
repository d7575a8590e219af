package trash

import (
	"sync"
	"time"
)

const (
	// roomAgain is how long a request that had kept volumes removed waits until it can have others
	// removed, and for how long bytes that did not become free are not offered.
	roomAgain = 10 * time.Minute
	// roomSettles is for how long a filesystem may free the blocks of removed files in the background.
	roomSettles = time.Minute
	// roomHurries is how often Hurry may have a purge run.
	roomHurries = 10 * time.Second
)

// Room remembers for whom kept volumes are to be removed early, and how many bytes were expected of the
// removals. Bytes that are about to become free are offered as if they were still kept, and bytes that
// did not become free are not offered for ten minutes. Methods may be called from
// many goroutines.
type Room struct {
	running func() time.Duration
	wake    chan struct{}

	mu     sync.Mutex               // guards the following fields
	wanted map[string]Need          // of volumes that wait for the next removal
	asked  map[string]time.Duration // when that was, of each volume

	leaving  map[string]bool // entries that are being removed
	expected int64           // their bytes, and of those before them
	free     int64           // bytes that were free when the first of them left
	ended    time.Duration   // when the last of them was removed

	hurried time.Duration // when Hurry last had an effect

	missing      int64 // bytes that were expected and did not become free
	missingUntil time.Duration
}

// Need is what a volume lacks.
type Need struct {
	Bytes int64
	// Except is the ID of a kept volume that must not be removed for it: it is to be brought back.
	Except string
}

// NewRoom returns a Room for which nothing was asked yet.
func NewRoom(running func() time.Duration) *Room {
	return &Room{running: running, wake: make(chan struct{}, 1), wanted: map[string]Need{},
		asked: map[string]time.Duration{}, leaving: map[string]bool{}}
}

// Wanted returns a channel that has a value after room was asked for, or Hurry was called.
func (r *Room) Wanted() <-chan struct{} { return r.wake }

// Ask asks the next purge to make room for what a volume needs, and reports whether room is
// being made. It returns false for a volume for which kept volumes were removed in the last ten minutes.
func (r *Room) Ask(volume string, need Need, free int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waits := r.wanted[volume]; waits {
		return true
	}
	now := r.running()
	if at, ok := r.asked[volume]; ok && now-at < roomAgain {
		return r.coming(free) > 0
	}
	for v, at := range r.asked {
		if now-at >= roomAgain {
			delete(r.asked, v)
		}
	}
	r.wanted[volume], r.asked[volume] = need, now
	r.wakeUp()
	return true
}

// Hurry has the next purge run at once, for the filesystem. It does nothing for ten seconds after that.
func (r *Room) Hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.running(); r.hurried == 0 || now-r.hurried >= roomHurries {
		r.hurried = max(1, now)
		r.wakeUp()
	}
}

// wakeUp puts a value into the channel of Wanted.
func (r *Room) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Served notes that a volume has what it asked for: it may ask again at once.
func (r *Room) Served(volume string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.wanted, volume)
	delete(r.asked, volume)
}

// Asked returns the sum of the bytes that were asked for since the last call, and the IDs that must not
// be removed for them.
func (r *Room) Asked() (sum int64, except map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	except = map[string]bool{}
	for _, need := range r.wanted {
		sum += need.Bytes
		except[need.Except] = true
	}
	clear(r.wanted)
	return sum, except
}

// Leaves notes that an entry of so many sure bytes is being removed, while so many are free.
func (r *Room) Leaves(id string, bytes, free int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coming(free); r.expected == 0 {
		r.free = free
	}
	r.leaving[id] = true
	r.expected += bytes
}

// Left notes which entries are still to be removed.
func (r *Room) Left(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.leaving) == 0 {
		return
	}
	still := map[string]bool{}
	for _, name := range names {
		if r.leaving[name] {
			still[name] = true
		}
	}
	r.leaving, r.ended = still, max(1, r.running())
}

// Coming returns how many expected bytes are still to become free, while so many are.
func (r *Room) Coming(free int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.coming(free)
}

// coming is Coming, and ends an expectation whose time is over. The caller holds mu.
func (r *Room) coming(free int64) int64 {
	now := r.running()
	if now >= r.missingUntil {
		r.missing = 0
	}
	left := max(0, r.expected-max(0, free-r.free))
	if len(r.leaving) > 0 || r.expected > 0 && left > 0 && now-r.ended < roomSettles {
		return left
	}
	if r.expected > 0 && left > 0 {
		r.missing, r.missingUntil = max(r.missing, left), now+roomAgain
	}
	r.expected = 0
	return 0
}

// Settles reports whether removed files may still become free, or did so a moment ago.
func (r *Room) Settles() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.leaving) > 0 || r.ended > 0 && r.running()-r.ended < roomSettles
}

// Offered returns how much of what is kept may be offered, with what is still to become free.
func (r *Room) Offered(kept, free int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	coming := r.coming(free)
	return max(0, kept-r.missing) + coming
}

// Reset forgets what was asked and expected.
func (r *Room) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.wanted)
	clear(r.asked)
	clear(r.leaving)
	r.expected, r.missing, r.missingUntil = 0, 0, 0
}
