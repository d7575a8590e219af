package volume

import "io/fs"

// Config says what a pool is and how it behaves. New checks it.
type Config struct {
	Name string // the pool's name, as classes select it
	Path string // absolute; a relative path resolves against /
	// Mode of new volume directories; 0 means 0777.
	Mode fs.FileMode
	// Label is the SELinux label of new volume directories: LabelAuto sets
	// DefaultLabel where the filesystem carries labels, "" sets none.
	Label string
	// Reserve is kept out of every promise, in bytes.
	Reserve int64
	// Overcommit is how many times the space may be promised; 0 means 1.
	Overcommit float64
	// Inner are names in this pool that belong to pools inside it.
	Inner []string
	// PurgeRate is how many files the purge may remove a second; 0 is no bound.
	PurgeRate int
	// Holder names this process to one that finds the pool taken.
	Holder string
	// Expected says what the PVs of this node say of this pool; nil: nothing.
	// It is asked at every (re)opening.
	Expected func() Expected
	// Step is called before every change to the disk, with its name. Tests
	// stop the world there. nil does nothing.
	Step func(name string)
}

// Expected is what others know of a pool before it is opened. It keeps a pool
// whose disk is not mounted from being founded anew on the disk below.
type Expected struct {
	// IDs of pools that PVs name at this path. If there are any, only a pool
	// of one of them may open.
	IDs []string
	// Volumes that PVs without a pool's ID (older provisioners') name here.
	// If there are any, and none is in place, no pool is founded.
	Volumes []string
}

// Pool is a directory whose children are volumes. Nothing a Pool does reaches
// outside that directory, whatever name it is given. Methods may be called
// from many goroutines; one volume's calls wait for each other.
//
// Every method that needs the disk first looks whether the path still leads
// to the directory that was opened. If not, it opens anew; if that fails, it
// returns ErrNotReady and changes nothing.
type Pool struct{}

// Space is what a pool has and can still promise, in bytes.
type Space struct {
	Total      int64 `json:"total"`
	Free       int64 `json:"free"`       // for users, without the filesystem's root reserve
	Used       int64 `json:"used"`       // by volumes, each counted up to its promise
	External   int64 `json:"external"`   // total - free - used: others' data, trash included
	Promised   int64 `json:"promised"`   // to volumes that are not being deleted
	Promisable int64 `json:"promisable"` // max(0, ratio*(total-reserve-external) - promised), never above free
	// Estimate is true where the use of some volume is not known exactly.
	Estimate bool `json:"estimate"`
}

/*
func Check(path string) error                                   // what cannot be a pool, whatever its state
func New(c Config) (*Pool, error)                               // checks the configuration, touches nothing
func (p *Pool) Open() error                                     // idempotent; takes the lock, recovers
func (p *Pool) Close() error
func (p *Pool) Ready() error                                    // nil, or why not (ErrNotReady)
func (p *Pool) Name() string
func (p *Pool) Path() string                                    // absolute and clean
func (p *Pool) ID() string                                      // "" until open
func (p *Pool) Warnings() []string                              // what an administrator should know: loose mode, no limits
func (p *Pool) Create(Spec) (Volume, error)                     // idempotent
func (p *Pool) Adopt(Spec) (Volume, error)                      // idempotent; an existing real directory gets a record
func (p *Pool) Bind(name string, b Binding) (changed bool, err error) // idempotent: a PV was seen
func (p *Pool) Undo(name string) error                          // an unfinished create: plain rmdir, ErrNotEmpty
func (p *Pool) Delete(name string) error                        // idempotent, instant
func (p *Pool) Get(name string) (Volume, error)                 // ErrNotFound
func (p *Pool) ByPV(pv string) (Volume, error)                  // ErrNotFound; the record whose PV has that name
func (p *Pool) List() ([]Volume, error)                         // sorted by name
func (p *Pool) Space() (Space, error)
func (p *Pool) Measure(ctx context.Context) error               // walks volumes to learn their use; paced
func (p *Pool) Purge(ctx context.Context) (more bool, err error)// one pass over the trash
func Inspect(path string) (Report, error)                       // reads a pool without owning it
*/
