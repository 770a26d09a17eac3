package fenceposttest

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// fakeService is the API of the fake server. What is not here is answered with UNIMPLEMENTED.
type fakeService struct {
	pb.UnimplementedLockServiceServer
	fake *FakeServer
}

// answerFake makes the answer to a unary call.
func answerFake[T any](f *FakeServer, compute func() T) (answer T, err error) {
	if !f.running(func() { answer = compute() }) {
		return answer, status.Error(codes.Unavailable, "the fake server has been stopped")
	}
	return answer, nil
}

func (s fakeService) Get(_ context.Context, request *pb.GetRequest) (*pb.GetResponse, error) {
	return answerFake(s.fake, func() *pb.GetResponse {
		return &pb.GetResponse{Lock: s.fake.locks.lock(request.GetLockName()).info()}
	})
}

// List has one page, whatever its size.
func (s fakeService) List(_ context.Context, request *pb.ListRequest) (*pb.ListResponse, error) {
	return answerFake(s.fake, func() *pb.ListResponse {
		answer := &pb.ListResponse{}
		for name, lock := range s.fake.locks.byName {
			if strings.HasPrefix(name, request.GetPrefix()) && (lock.current != nil || len(lock.queue) > 0) {
				answer.Locks = append(answer.Locks, lock.info())
			}
		}
		return answer
	})
}

func (s fakeService) CheckToken(_ context.Context, request *pb.CheckTokenRequest) (*pb.CheckTokenResponse, error) {
	return answerFake(s.fake, func() *pb.CheckTokenResponse {
		lock, token := s.fake.locks.lock(request.GetLockName()), request.GetFencingToken()
		answer := &pb.CheckTokenResponse{NewestToken: lock.newest, Status: pb.CheckTokenResponse_STATUS_UNKNOWN}
		switch {
		case token == lock.newest && lock.current != nil:
			answer.Status = pb.CheckTokenResponse_STATUS_CURRENT
		case token == lock.newest && token != 0:
			answer.Status = pb.CheckTokenResponse_STATUS_ENDED
		case token < lock.newest:
			answer.Status = pb.CheckTokenResponse_STATUS_STALE
		}
		return answer
	})
}

// A fakeWatcher is one stream of events.
type fakeWatcher struct {
	prefix string
	events fakeQueue[*pb.WatchResponse]
}

// report sends an event to all who watch its lock. The mutex is held.
func (f *FakeServer) report(event *pb.WatchResponse) {
	for watcher := range f.watchers {
		if strings.HasPrefix(event.GetLockName(), watcher.prefix) {
			put(f, &watcher.events, event)
		}
	}
}

func (s fakeService) Watch(
	request *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse],
) error {
	f, watcher := s.fake, &fakeWatcher{prefix: request.GetPrefix()}
	f.mu.Lock()
	f.watchers[watcher] = struct{}{}
	put(f, &watcher.events, &pb.WatchResponse{Kind: pb.WatchResponse_KIND_STARTED})
	f.mu.Unlock()
	leave := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, watcher)
		watcher.events.closed = true
		f.changed.Broadcast()
	}
	defer leave()
	defer context.AfterFunc(stream.Context(), leave)()
	for {
		event, more := take(f, &watcher.events, func(*pb.WatchResponse) {})
		if !more {
			return status.Error(codes.Unavailable, "the watch has ended")
		}
		if err := stream.Send(event); err != nil {
			return err
		}
	}
}
