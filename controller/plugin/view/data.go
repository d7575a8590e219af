package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Data prints the value as JSON or YAML, without characters that a terminal obeys.
func Data(out io.Writer, format string, value any) error {
	var data []byte
	var err error
	switch format {
	case "json":
		data, err = JSON(value)
	case "yaml":
		data, err = YAML(value)
	default:
		return fmt.Errorf("output %q is neither json nor yaml", format)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}

// JSON returns the value as indented JSON. Characters that control a terminal, or the direction of a
// text, are escapes in it.
func JSON(value any) ([]byte, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(escaped(data, obeyed, `\u%04x`), '\n'), nil
}

// YAML returns the value as YAML. Characters that control a terminal are escapes; those of the direction
// of a text, for which YAML needs none, are the letters of one.
func YAML(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	data = escaped(data, func(r rune) bool { return unicode.Is(unicode.Cf, r) }, `\\u%04x`)
	return yaml.JSONToYAML(escaped(data, obeyed, `\u%04x`))
}

// obeyed reports whether a terminal obeys a character instead of showing it.
func obeyed(r rune) bool { return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Cf, r) }

// escaped replaces characters of JSON. Outside of strings JSON has none of them.
func escaped(data []byte, which func(rune) bool, format string) []byte {
	var b bytes.Buffer
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError || !which(r):
			b.Write(data[:size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, format+format, high, low)
		default:
			fmt.Fprintf(&b, format, r)
		}
		data = data[size:]
	}
	return b.Bytes()
}
