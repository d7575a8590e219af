package report

import (
	"archive/zip"
	"fmt"
	"io"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// ManifestName is the name of the manifest in the archive.
const ManifestName = "MANIFEST.txt"

// Entry is a file of the archive, or one that is missing.
type Entry struct {
	Name string
	// What is inside, or why the file is missing.
	What string
	// Bytes is the size of the file; -1 for one that is missing.
	Bytes int
}

// bundle is an archive that is being written. Its first error stops it.
type bundle struct {
	zip     *zip.Writer
	at      time.Time
	entries []Entry
	dropped int // values of objects that are not shown
	err     error
}

func newBundle(to io.Writer, at time.Time) *bundle { return &bundle{zip: zip.NewWriter(to), at: at} }

// add writes a file.
func (b *bundle) add(name, what string, data []byte) {
	if b.write(name, data); b.err == nil {
		b.entries = append(b.entries, Entry{name, what, len(data)})
	}
}

// missing notes that a file is not there, and why.
func (b *bundle) missing(name, why string) {
	b.entries = append(b.entries, Entry{name, scrubbed(why), -1})
}

func (b *bundle) write(name string, data []byte) {
	if b.err != nil {
		return
	}
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: b.at})
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		b.err = fmt.Errorf("write %s of the report: %w", name, err)
	}
}

// close writes the manifest and the end of the archive.
func (b *bundle) close(head string) error {
	b.write(ManifestName, []byte(manifest(head, b.entries, b.dropped)))
	if b.err != nil {
		return b.err
	}
	if err := b.zip.Close(); err != nil {
		return fmt.Errorf("write the end of the report: %w", err)
	}
	return nil
}

// leftOut is what no report has.
const leftOut = `Left out on purpose

  Secrets and ConfigMaps: none is read
  PVs, claims, events and the parameters and mount options of classes of other storage
  every field of an object that is not on the list in controller/plugin/report/fields.go
  annotations, but for those of Kubernetes' volume controllers and of hostpath-provisioner: their values are "(cut)"
  the values of claims' labels: they are "(cut)"
  everything of other programs' containers but name and image
  environment variables that are not this project's, and those whose names are of secrets: "(cut)"; references to
  Secrets stay references
  in messages and logs: logins in URLs, and what follows words for secrets: "(cut)"
  names of files and directories that no volume has
`

func manifest(head string, entries []Entry, dropped int) string {
	var b strings.Builder
	b.WriteString(head + "\n\nFiles\n\n")
	for _, e := range entries {
		if e.Bytes >= 0 {
			fmt.Fprintf(&b, "  %s: %s, %d bytes\n", e.Name, e.What, e.Bytes)
		}
	}
	b.WriteString("\nMissing\n\n")
	none := true
	for _, e := range entries {
		if e.Bytes < 0 {
			none = false
			fmt.Fprintf(&b, "  %s: %s\n", e.Name, view.Printable(strings.ReplaceAll(strings.TrimSpace(e.What), "\n", " ")))
		}
	}
	if none {
		b.WriteString("  nothing\n")
	}
	return b.String() + "\n" + leftOut + fmt.Sprintf("\n%d values of objects and texts are left out\n", dropped)
}
