//go:build unix

package fencepost_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// A front forwards the messages of sessions to a server. Those of the server that change replaces by nil are dropped.
type front struct {
	pb.UnimplementedLockServiceServer
	address string
	stub    pb.LockServiceClient
	change  func(*pb.SessionResponse) *pb.SessionResponse

	// changed is told of each conversion and description that the server has answered, and returns the error for the
	// client.
	changed func() error

	mu       sync.Mutex
	requests []*pb.SessionRequest
	// toServer and toClient send a message on the latest session.
	toServer func(*pb.SessionRequest) error
	toClient func(*pb.SessionResponse) error
}

func startFront(t *testing.T, target string, change func(*pb.SessionResponse) *pb.SessionResponse) *front {
	t.Helper()
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f := &front{address: listener.Addr().String(), stub: pb.NewLockServiceClient(connection), change: change}
	server := grpc.NewServer()
	pb.RegisterLockServiceServer(server, f)
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		_ = connection.Close()
		all.Wait()
	})
	return f
}

func (f *front) Session(client grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	server, err := f.stub.Session(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.toServer, f.toClient = server.Send, client.Send
	f.mu.Unlock()
	go func() {
		for {
			request, err := client.Recv()
			if err != nil {
				_ = server.CloseSend()
				return
			}
			f.mu.Lock()
			f.requests = append(f.requests, request)
			err = server.Send(request)
			f.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	for {
		response, err := server.Recv()
		if err != nil {
			return err
		}
		f.mu.Lock()
		if response = f.change(response); response != nil {
			err = client.Send(response)
		}
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (f *front) Convert(ctx context.Context, request *pb.ConvertRequest) (*pb.ConvertResponse, error) {
	answer, err := f.stub.Convert(ctx, request)
	if err == nil && f.changed != nil {
		err = f.changed()
	}
	return answer, err
}

func (f *front) Describe(ctx context.Context, request *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	answer, err := f.stub.Describe(ctx, request)
	if err == nil && f.changed != nil {
		err = f.changed()
	}
	return answer, err
}

// ListWaiters has pages of one waiter.
func (f *front) ListWaiters(ctx context.Context, request *pb.ListWaitersRequest) (*pb.ListWaitersResponse, error) {
	request.PageSize = 1
	return f.stub.ListWaiters(ctx, request)
}

// send sends a message to the server in the name of the client.
func (f *front) send(t *testing.T, request *pb.SessionRequest) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	must(t, f.toServer(request))
}

// deliver sends a message to the client in the name of the server.
func (f *front) deliver(t *testing.T, response *pb.SessionResponse) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	must(t, f.toClient(response))
}

// sent are the requests of a kind that the client has sent.
func (f *front) sent(is func(*pb.SessionRequest) bool) []*pb.SessionRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []*pb.SessionRequest
	for _, request := range f.requests {
		if is(request) {
			found = append(found, request)
		}
	}
	return found
}

// acquires are the acquires that were sent.
func (f *front) acquires() []*pb.AcquireRequest {
	var found []*pb.AcquireRequest
	for _, request := range f.sent(func(r *pb.SessionRequest) bool { return r.GetAcquire() != nil }) {
		found = append(found, request.GetAcquire().GetRequest())
	}
	return found
}

// takeFirst drops the first message of a kind, and gives it to the test.
func takeFirst(is func(*pb.SessionResponse) bool) (
	change func(*pb.SessionResponse) *pb.SessionResponse, taken chan *pb.SessionResponse,
) {
	taken = make(chan *pb.SessionResponse, 1)
	done := false
	return func(response *pb.SessionResponse) *pb.SessionResponse {
		if done || !is(response) {
			return response
		}
		done = true
		taken <- response
		return nil
	}, taken
}

func isGrant(response *pb.SessionResponse) bool { return response.GetAcquire().GetLease() != nil }
