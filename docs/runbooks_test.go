package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// agentLabels returns the labels of the pods of each form, by its directory.
func agentLabels(t *testing.T) map[string]labels.Set {
	t.Helper()
	all := map[string]labels.Set{}
	for _, form := range []string{"csi", "legacy", "local-path/agent", "local-pv"} {
		var k struct {
			Labels []struct {
				IncludeTemplates bool
				Pairs            labels.Set
			}
		}
		if err := yaml.Unmarshal([]byte(text(t, "manifests/"+form+"/kustomization.yaml")), &k); err != nil || len(k.Labels) != 1 || !k.Labels[0].IncludeTemplates {
			t.Fatalf("%s: %+v, %v", form, k, err)
		}
		all[form] = k.Labels[0].Pairs
	}
	for document := range strings.SplitSeq(text(t, "controller/operator/install/agent.yaml"), "\n---\n") {
		var set struct {
			Kind string
			Spec struct {
				Template struct{ Metadata struct{ Labels labels.Set } }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &set); err == nil && set.Kind == "DaemonSet" {
			all["operator"] = set.Spec.Template.Metadata.Labels
		}
	}
	if len(all) != 5 {
		t.Fatalf("%v", all)
	}
	return all
}

// selects matches a command that takes the agent's pod of a node, and its selector.
var selects = regexp.MustCompile(`get pods[^|)]*? -l '?([^' ]+)'?[^|)]*`)

// A command that takes the agent of a node selects one pod also where raw disks have an agent of their own: with two,
// the commands after it fail, or ask the wrong one.
func TestCommandsTakeOnePod(t *testing.T) {
	forms, commands := agentLabels(t), 0
	for _, page := range pages(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(data), "")
		for _, m := range selects.FindAllStringSubmatch(joined, -1) {
			if !strings.Contains(m[0], "spec.nodeName=") {
				continue
			}
			commands++
			selector, err := labels.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
				continue
			}
			disks := selector.Matches(forms["local-pv"])
			for form, set := range forms {
				if form != "local-pv" && selector.Matches(set) == disks {
					t.Errorf("%s: %s selects both the agents of raw disks and of %s, or neither", page, m[1], form)
				}
			}
		}
	}
	if commands < 14 {
		t.Errorf("%d commands take the agent of a node", commands)
	}
}

// A runbook begins with the plugin's command, and has a way without the plugin.
func TestRunbooksHaveBothWays(t *testing.T) {
	books, err := filepath.Glob("runbooks/*.md")
	if err != nil || len(books) < 15 {
		t.Fatalf("%q, %v", books, err)
	}
	command := regexp.MustCompile(`(?m)^    kubectl .*$`)
	for _, book := range books {
		all := command.FindAllString(text(t, "docs/"+book), -1)
		for i, line := range all {
			all[i] = strings.TrimSpace(line)
		}
		without := regexp.MustCompile(`(?s)Without the plugin.*?\n    \S`).MatchString(text(t, "docs/"+book))
		if len(all) == 0 || !strings.HasPrefix(all[0], "kubectl hpp ") || !without {
			t.Errorf("%s begins with %.1q, and has a way without the plugin: %t", book, all, without)
		}
	}
}
