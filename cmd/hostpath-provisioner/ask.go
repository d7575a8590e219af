package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// answerError is an answer of the agent with another code than 200.
type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return e.text }

// ask sends a request to the agent of this container, which listens on the address, and decodes its
// answer. The error is an *answerError if the agent refuses the request.
func ask(ctx context.Context, within time.Duration, address, method, path string, body, answer any) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--http-address: %w", err)
	}
	if host == "" {
		host = "localhost"
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(host, port)+path,
		bytes.NewReader(data))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the agent of this container, which must serve its --http-address: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return json.NewDecoder(response.Body).Decode(answer)
	}
	const longest = 64 << 10
	text, _ := io.ReadAll(io.LimitReader(response.Body, longest)) // the code is an error already
	return &answerError{response.StatusCode, strings.TrimSpace(string(text))}
}
