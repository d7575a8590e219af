package release

import (
	"fmt"
	"net/url"
	"strings"
)

// runbooks is the directory of the alerts' pages.
const runbooks = "docs/runbooks/"

// unknownProject stands for the address of the repository in a version before a release that names
// none.
const unknownProject = "https://repository.invalid/hostpath-provisioner"

// checkProject returns an error if project is no address of a repository. It may be empty for a
// version before a release, which nobody installs by its links.
func checkProject(project, version string) error {
	if project == "" && strings.Contains(version, "-") {
		return nil
	}
	const want = "set REPOSITORY to the address of the project's repository, such as https://github.com/example/hostpath-provisioner"
	if project == "" {
		return fmt.Errorf("the release has links to its pages and downloads: %s", want)
	}
	u, err := url.Parse(project)
	if err != nil || u.Scheme != "https" || u.Host == "" || len(u.Path) < 2 || strings.HasSuffix(project, "/") ||
		strings.HasSuffix(project, ".git") || u.RawQuery+u.Fragment != "" || u.User != nil {
		return fmt.Errorf("the repository is %q: %s", project, want)
	}
	return nil
}

// project returns the address of the project's repository.
func (r *Release) project() string {
	if r.Project == "" {
		return unknownProject
	}
	return r.Project
}

// downloads is the address at which the files of the release are found.
func (r *Release) downloads() string { return r.project() + "/releases/download/" + r.Version + "/" }

// page returns the address of a file of the repository at the release's tag.
func (r *Release) page(path string) string { return r.project() + "/blob/" + r.Version + "/" + path }

// withPages returns rules whose runbooks are pages of the release. In the tree they are paths.
func (r *Release) withPages(rules string) string {
	return strings.ReplaceAll(rules, "runbook_url: "+runbooks, "runbook_url: "+r.page(runbooks))
}
