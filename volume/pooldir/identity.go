package pooldir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
)

// Identity is the content of pool.json. It identifies a pool.
type Identity struct {
	Version int       `json:"version"`
	ID      string    `json:"id"` // a UUID
	Created time.Time `json:"created"`
}

// identityVersion is the version of new pools. The agent opens no pool of a later version.
const identityVersion = 1

// readIdentity reads pool.json in the private directory. The ID is "" if there is none yet.
func readIdentity(private int) (Identity, error) {
	var id Identity
	data, err := file.Read(private, identityName)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return Identity{}, fmt.Errorf("%w: %s cannot be read: %w", fault.ErrNotReady, identityName, err)
	}
	if id.Version > identityVersion {
		return Identity{}, fmt.Errorf("%w: %s is of version %d, this program knows up to %d; use a later one",
			fault.ErrNotReady, identityName, id.Version, identityVersion)
	}
	if id.ID == "" {
		return Identity{}, fmt.Errorf("%w: %s has no id", fault.ErrNotReady, identityName)
	}
	return id, nil
}

func (o *Opener) found(private int) (Identity, error) {
	id := Identity{Version: identityVersion, ID: newUUID(), Created: time.Now().UTC().Truncate(time.Second)}
	data, err := file.JSON(id)
	if err != nil {
		return Identity{}, err
	}
	return id, file.Replace(private, []file.Content{{Name: identityName, Data: data}},
		func(part string) { o.config.Step("pool." + part) })
}

// admit decides whether the directory with this identity may be the pool. id is "" if it has none;
// place then describes what was found. known is the ID of the pool that this process opened before,
// or "". Such a pool is not founded again.
//
// Volumes of PVs without a pool's ID prove the disk only if one of them has data: a kubelet creates
// a missing directory of type DirectoryOrCreate, and that is empty. If all of them are empty on the
// right disk, an administrator confirms the disk with an empty private directory.
func admit(e Expected, known, id, place string, hasData func(name string) bool) error {
	who, ids := "PVs of this node name", e.IDs
	if len(ids) == 0 && known != "" {
		who, ids = "this process opened", []string{known}
	}
	switch {
	case id != "" && (len(ids) == 0 || slices.Contains(ids, id)):
		return nil
	case id != "":
		return fmt.Errorf("%w: %s pool %s; this directory is pool %s: another disk is probably mounted",
			fault.ErrNotReady, who, strings.Join(ids, ", "), id)
	case len(ids) > 0:
		return fmt.Errorf("%w: %s pool %s; %s: its disk is probably not mounted",
			fault.ErrNotReady, who, strings.Join(ids, ", "), place)
	case len(e.Volumes) > 0 && !slices.ContainsFunc(e.Volumes, hasData):
		return fmt.Errorf("%w: PVs of this node name the volume %s here, %d in all, and none is in place with data "+
			"in it; %s: its disk is probably not mounted; if it is, and all of them "+
			"are empty, make the empty directory %s in the pool",
			fault.ErrNotReady, e.Volumes[0], len(e.Volumes), place, PrivateName)
	}
	return nil
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // returns no error; see crypto/rand
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Expected has what PVs show of a pool before it is opened. It prevents that a pool whose disk is
// not mounted is founded on the disk below.
type Expected struct {
	// IDs has the pools that PVs name at this path. If there are any, only one of them is opened.
	IDs []string
	// Volumes has the volumes that PVs without a pool's ID (of older provisioners) name at this
	// path. If there are any, and none of them is in place with data, no pool is founded: a kubelet
	// creates missing directories.
	Volumes []string
}
