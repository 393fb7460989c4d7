package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
)

// remoteTrace is a RemoteTracer to the collector at a full address.
func remoteTrace(ctx context.Context, h host.Host, addr string) (*pubsub.RemoteTracer, error) {
	collector, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return nil, err
	}
	return pubsub.NewRemoteTracer(ctx, h, *collector, slog.Default())
}

// traceFile is a PBTracer whose end can be waited for: PBTracer itself doesn't tell when it has
// written everything, but it closes the pipe that it is given then.
type traceFile struct {
	*pubsub.PBTracer
	done chan error
}

func openTrace(path string) (*traceFile, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	tracer, err := pubsub.NewPBTracer(fmt.Sprintf("/dev/fd/%d", to.Fd()))
	if err = errors.Join(err, to.Close()); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(file, from)
		done <- errors.Join(err, file.Close())
	}()
	return &traceFile{tracer, done}, nil
}

// finish ends the trace and waits until the file is whole.
func (t *traceFile) finish() {
	t.Close()
	if err := <-t.done; err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
	}
}
