package volume

// Paths returns the paths of other pools that SetPaths noted in this one, none if it never did. The
// error is ErrDamaged if the note cannot be understood.
func (p *Pool) Paths() ([]string, error) {
	return resultOf(p.withPool, "read the paths noted in pool", p.path,
		func(c *call) ([]string, error) { return c.Paths() })
}

// SetPaths notes the paths of other pools in this one, durably and in place of those before. A
// process whose settings lack one of them can read the note with pooldir.ReadPaths. Only one call
// may run at a time.
func (p *Pool) SetPaths(paths []string) error {
	return p.withPool("note paths in pool", p.path, func(c *call) error {
		if err := p.begin(c, "paths"); err != nil {
			return err
		}
		return c.SetPaths(paths, p.steps("paths"))
	})
}
