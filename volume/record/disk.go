//go:build linux

package record

import (
	"errors"
	"io/fs"

	"kubevirt.io/hostpath-provisioner/volume/file"
)

// Put writes records to the directory, then to memory. If that fails, memory takes
// over what stands on the disk. step is called before each part of the change.
func (s *Store) Put(dir int, step func(string), records ...Record) error {
	return s.write(dir, records, func(files []file.Content) error {
		return file.Replace(dir, files, step)
	})
}

// PutNew is Put for a volume that has no record, and waits for the disk but once: for the record
// and what is beside it, such as the directory of records. A crash may leave an empty record, so
// nothing may have the volume's name before; see Loaded.
func (s *Store) PutNew(dir int, step func(string), r Record, beside ...int) error {
	return s.write(dir, []Record{r}, func(files []file.Content) error {
		err := file.Create(dir, files[0], step, beside...)
		if errors.Is(err, fs.ErrExist) { // an earlier call could not take it back
			err = file.Replace(dir, files, step, beside...)
		}
		return err
	})
}

// write encodes records, and remembers them once do has put them in place.
func (s *Store) write(dir int, records []Record, do func([]file.Content) error) error {
	files := make([]file.Content, len(records))
	for i := range records {
		records[i].Version = Version
		data, err := file.JSON(records[i])
		if err != nil {
			return err
		}
		files[i] = file.Content{Name: records[i].Name, Data: data}
	}
	err := do(files)
	for _, r := range records {
		if err != nil {
			s.reload(dir, r.Name)
		} else {
			s.Set(r)
		}
	}
	return err
}

// Drop removes a record from the disk, then from memory.
func (s *Store) Drop(dir int, step func(string), name string) error {
	step("remove")
	if err := file.Remove(dir, name); err != nil {
		return err
	}
	s.Forget(name)
	step("sync")
	return file.Flush(dir)
}

// reload reads the record from the disk into memory, if it can be read.
func (s *Store) reload(dir int, name string) {
	r, err := Read(dir, name)
	switch {
	case err == nil && s.isDeferred(name, r.State): // it knows more than the disk
	case err == nil:
		now, _ := s.Get(name)
		r.Aside, r.Flushed = now.Aside, now.Flushed
		s.Set(r)
	case errors.Is(err, fs.ErrNotExist):
		s.Forget(name)
	}
}
