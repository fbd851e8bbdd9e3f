package main

import (
	"context"
	"io"

	"github.com/fairlead/fairlead/agent/client"
)

// connector finds the socket of an agent; the caller closes the client.
type connector interface {
	connect() (*client.Client, error)
}

// ask puts one question to an agent that any agent answers in a moment.
func ask[T any](ctx context.Context, socket connector, question func(context.Context, *client.Client) (T, error)) (answer T, err error) {
	c, err := socket.connect()
	if err != nil {
		return answer, err
	}
	defer c.Close()
	ctx, cancel := readTimeout(ctx)
	defer cancel()
	return question(ctx, c)
}

// show writes an answer: as JSON if that was asked for, else for people.
func show[T any](a *app, output *outputFlag, answer T, people func(io.Writer, T) error) error {
	if output.json() {
		return writeJSON(a.out, answer)
	}
	return people(a.out, answer)
}
