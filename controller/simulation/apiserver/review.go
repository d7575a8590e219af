package apiserver

import (
	"net/http"
	"strings"
)

// review answers access reviews.
func (c *call) review() (done bool, a answer, err error) {
	if c.Verb != "create" || !strings.HasSuffix(c.Resource, "reviews") {
		return false, answer{}, nil
	}
	o, err := c.decode(c.body)
	if err != nil {
		return true, answer{}, err
	}
	o["status"] = Object{"allowed": c.server.Allow == nil || c.server.Allow(c.Who, o)}
	if c.Resource == "selfsubjectrulesreviews" {
		all := []string{"*"}
		o["status"] = Object{"incomplete": false, "nonResourceRules": []Object{},
			"resourceRules": []Object{{"verbs": all, "apiGroups": all, "resources": all}}}
	}
	return true, answer{code: http.StatusCreated, other: o}, nil
}
