package release

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// readNotes returns the part of the changelog with the heading of the version. A version before a
// release, such as v1.2.3-rc.1, may also have the part Unreleased.
func readNotes(changelog, version string) (string, error) {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return "", err
	}
	headings := []string{version}
	if strings.Contains(version, "-") {
		headings = append(headings, "Unreleased")
	}
	for _, heading := range headings {
		_, part, found := strings.Cut("\n"+string(text), "\n## "+heading+"\n")
		if !found {
			continue
		}
		part, _, _ = strings.Cut(part, "\n## ")
		return fmt.Sprintf("# hostpath-provisioner %s\n\n%s\n", version, strings.TrimSpace(part)), nil
	}
	return "", fmt.Errorf("%s has no heading \"## %s\": give what changed for users that heading, in a commit",
		filepath.Base(changelog), version)
}

// writeSums writes SHA256SUMS, for sha256sum --check.
func writeSums(files string) error {
	entries, err := os.ReadDir(files) // in the order of their names
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(files, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(files, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
