package fencepost

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// A stream has messages of a server, on its shared connection.
type stream[M any] struct {
	client     *Client
	connection *sharedConn
	messages   grpc.ServerStreamingClient[M]
	// end ends it, and with it ctx.
	ctx context.Context
	end context.CancelFunc
}

// openStream makes one attempt to open a stream with the preferred server, and waits for its first message.
func openStream[M any](
	ctx context.Context, c *Client,
	open func(context.Context, pb.LockServiceClient) (grpc.ServerStreamingClient[M], error),
) (opened *stream[M], first *M, failed *failure) {
	server := c.servers.current()
	connection, err := c.servers.borrow(server)
	if err != nil {
		return nil, nil, failureOf(err)
	}
	streaming, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(c.servers.answerTime(), cancel)
	defer late.Stop()
	closed := context.AfterFunc(c.closing, cancel)
	defer closed()
	messages, err := open(streaming, connection.stub())
	if err == nil {
		first, err = receive(messages)
	}
	if err == nil && late.Stop() && closed() {
		c.servers.works(server)
		context.AfterFunc(streaming, func() { c.servers.giveBack(connection) })
		opened = &stream[M]{client: c, connection: connection, messages: messages, ctx: streaming, end: cancel}
		return opened, first, nil
	}
	cancel()
	defer c.servers.giveBack(connection)
	if err == nil || !late.Stop() {
		err = status.Error(codes.DeadlineExceeded, "no answer in time")
	}
	failed = c.callFailed(ctx, connection, err).ofStream()
	if failed.noRoom && !failed.isOverQuota() {
		c.servers.failed(server)
	}
	return nil, nil, failed
}

// next waits for the next message. A failure has ended the stream.
func (s *stream[M]) next() (*M, *failure) {
	message, err := receive(s.messages)
	if err == nil {
		return message, nil
	}
	failed := failureOf(err)
	if failed.reason == "" && s.ctx.Err() == nil {
		s.client.servers.retire(s.connection)
	}
	s.end()
	if failed.code == codes.Unauthenticated {
		// The credentials of the stream have expired, or were replaced. The next stream has those of its time.
		failed.code = codes.Unavailable
	}
	return nil, failed
}

// receive waits for a message. The end of the stream is an error, also without one of the server.
func receive[M any](messages grpc.ServerStreamingClient[M]) (*M, error) {
	message, err := messages.Recv()
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Unavailable, "the server ended the stream")
	}
	return message, err
}
