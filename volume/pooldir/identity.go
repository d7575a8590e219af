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

// Identity is pool.json: which pool a directory is.
type Identity struct {
	Version int       `json:"version"`
	ID      string    `json:"id"` // a UUID
	Created time.Time `json:"created"`
}

// identityVersion is written into new pools. A pool of a later version is not
// opened.
const identityVersion = 1

// readIdentity reads pool.json in the private directory. A pool that has none
// yet has no ID.
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

// found gives the pool its identity.
func (o *Opener) found(private int) (Identity, error) {
	id := Identity{Version: identityVersion, ID: newUUID(), Created: time.Now().UTC().Truncate(time.Second)}
	data, err := file.JSON(id)
	if err != nil {
		return Identity{}, err
	}
	return id, file.Replace(private, []file.Content{{Name: identityName, Data: data}}, o.steps("pool"))
}

// admit decides whether the directory with this identity may be the pool. id
// is "" where it has none, place says what was found instead. known is what
// this process opened before, or "": once open, a pool is not founded anew.
//
// Volumes without a pool's ID prove the disk only if one of them has data: a
// kubelet makes a missing directory of type DirectoryOrCreate anew, and that is
// empty. Where all of them are empty on the right disk, too, an administrator
// says so with an empty private directory.
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
		return fmt.Errorf("%w: PVs of this node name the volume %s here, %d in all, and none is in place with data in it; %s: "+
			"its disk is probably not mounted; if it is, and all of them are empty, make the empty directory %s in the pool",
			fault.ErrNotReady, e.Volumes[0], len(e.Volumes), place, PrivateName)
	}
	return nil
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails; see crypto/rand
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Expected is what others know of a pool before it is opened. It keeps a pool
// whose disk is not mounted from being founded anew on the disk below.
type Expected struct {
	// IDs of pools that PVs name at this path. If there are any, only a pool
	// of one of them may open.
	IDs []string
	// Volumes that PVs without a pool's ID (older provisioners') name here.
	// If there are any, and none is in place with data in it, no pool is founded:
	// kubelets make missing directories anew.
	Volumes []string
}
