package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPicture(t *testing.T) {
	got := picture("\x1b[1m$ a <b>\x1b[0m\r\n\n  \x1b[31m✗\x1b[0m no & yes\n\n")
	for _, want := range []string{`<tspan class="bold">$ a &lt;b&gt;</tspan>`, `  <tspan class="red">✗</tspan> no &amp; yes`, `<title>a &lt;b&gt;</title>`, `height="86"`, `width="128"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, got)
		}
	}
}
