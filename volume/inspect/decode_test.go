package inspect

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

func text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The JSON of version 1 has every field, with its name and its type, and is read and written again
// without a difference. A field that is renamed or gone needs a new version; a new one needs a line
// in testdata/v1.json.
func TestDecodeVersion1(t *testing.T) {
	want := text(t, "v1.json")
	all, err := Decode(strings.NewReader(want))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d reports, error %v", len(all), err)
	}
	unset(t, "report", reflect.ValueOf(all[0]))
	again, err := json.MarshalIndent(all[0], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if string(again)+"\n" != want {
		t.Errorf("written again it is\n%s", again)
	}
}

// unset fails for each field of the JSON that has no value.
func unset(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch {
	case v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0:
		t.Errorf("testdata/v1.json has no value for %s", name)
	case v.Kind() == reflect.Pointer:
		unset(t, name, v.Elem())
	case v.Kind() == reflect.Slice:
		unset(t, name, v.Index(0))
	case v.Kind() == reflect.Struct && v.Type().String() != "time.Time":
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("json") != "-" {
				unset(t, name+"."+f.Name, v.Field(i))
			}
		}
	}
}

// Agents of before versions print no version.
func TestDecodeBeforeVersions(t *testing.T) {
	all, err := Decode(strings.NewReader(text(t, "before-versions.json")))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d reports, error %v", len(all), err)
	}
	if r := all[0]; r.Version != 0 || r.Pool.Path != "/var/hpvolumes" || r.Space.Available != 10<<30 || r.Volumes[0].Owner.Name != "data" {
		t.Errorf("%+v", r)
	}
}

func TestDecode(t *testing.T) {
	v1 := text(t, "v1.json")
	const (
		newer = `{"version": 2, "pool": "another type"}`
		later = `{"version": 1, "new": {"a": [1]}, "pool": {"path": "/p", "new": true}, "volumes": [{"name": "v", "new": 1}]}`
	)
	for name, row := range map[string]struct {
		text  string
		paths string // of the pools that are returned
		want  string // the error
	}{
		"nothing":        {"", "", ""},
		"two pools":      {v1 + v1, "/var/hpvolumes/csi /var/hpvolumes/csi", ""},
		"unknown fields": {later, "/p", ""},
		"a newer version": {v1 + newer, "/var/hpvolumes/csi",
			"the report has version 2, and this program reads up to 1: use the kubectl-hpp of the agent's release"},
		"no JSON":    {v1 + "hostpath-provisioner: no", "/var/hpvolumes/csi", "the output of inspect is no JSON: invalid character 'h' looking for beginning of value"},
		"cut off":    {v1[:len(v1)/2], "", "the output of inspect is no JSON: unexpected EOF"},
		"wrong type": {`{"version": 1, "pool": "text"}`, "", "the report of inspect: json: cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Decode(strings.NewReader(row.text))
			var paths []string
			for _, r := range all {
				paths = append(paths, r.Pool.Path)
			}
			if got := strings.Join(paths, " "); got != row.paths {
				t.Errorf("pools %q, want %q", got, row.paths)
			}
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
		})
	}
}
