package tree

import "golang.org/x/sys/unix"

// names calls do for the entries of a directory as one read from its
// beginning returns them, until do returns false. Entries removed meanwhile
// may be among them; entries added may or may not.
func names(dir int, do func(name string) bool) error {
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	for {
		batch, err := nextNames(dir, buf)
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, name := range batch {
			if !do(name) {
				return nil
			}
		}
	}
}

// nextNames reads on in a directory: as many names as fit buf, none at the end.
func nextNames(dir int, buf []byte) ([]string, error) {
	for {
		n, err := unix.ReadDirent(dir, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOENT: // the directory itself was removed
			return nil, nil
		case err != nil || n == 0:
			return nil, err
		}
		// "." and ".." are left out, so a batch may come out empty.
		if _, _, batch := unix.ParseDirent(buf[:n], -1, nil); len(batch) > 0 {
			return batch, nil
		}
	}
}
