package fencepost

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/fencepost/fencepost-go/internal/facts"
)

const (
	// connectTimeout bounds one attempt to connect, with the TLS handshake.
	connectTimeout = facts.ConnectTimeoutMS * time.Millisecond
	// pingInterval is the interval of HTTP/2 pings on a connection, and pingTimeout the timeout for their answer. They
	// are how a connection without leases is found to be dead; gRPC allows no shorter interval.
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
)

// servers are the replicas of the service, and which one to use. They share one state, so any of them will do: calls
// stay with one that works, and move on when it fails.
//
// Each session has a connection of its own, so that a new session never depends on a connection that is dead without
// notice, and never queues behind other calls. All other calls to a server share one connection, until one of them gets
// no answer. A new connection resolves the name of its server anew.
type servers struct {
	list      []*server
	token     func(context.Context) (string, error)
	preferred atomic.Int64

	// mu guards the following fields, and those of each server.
	mu     sync.Mutex
	open   map[*sharedConn]struct{}
	closed bool
}

// A server is one address.
type server struct {
	address  address
	options  []grpc.DialOption
	greeting *greeting
	shared   *sharedConn
	// trouble is why the latest call to it got no answer; nil if it got one.
	trouble *finding
	// storeID is the id of its store, as it told last; empty until then.
	storeID string
}

func newServers(s settings) *servers {
	all := &servers{token: s.token, open: map[*sharedConn]struct{}{}}
	for _, address := range s.addresses {
		all.list = append(all.list, newServer(address, s))
	}
	return all
}

func newServer(to address, s settings) *server {
	transport, seen := insecure.NewCredentials(), &greeting{}
	if to.tls {
		transport = credentials.NewTLS(s.tls)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(handshakes{
			TransportCredentials: transport, greeting: seen, isTLS: to.tls, isLocal: to.path != "",
			hasCertificate: to.tls && (s.tls.GetClientCertificate != nil || len(s.tls.Certificates) > 0),
		}),
		grpc.WithContextDialer(func(ctx context.Context, where string) (net.Conn, error) {
			if to.path != "" {
				return seen.dial(ctx, "unix", to.path)
			}
			return seen.dial(ctx, "tcp", where)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  facts.ReconnectFirstMS * time.Millisecond,
				Multiplier: 2,
				Jitter:     0.5,
				MaxDelay:   facts.ReconnectMaxMS * time.Millisecond,
			},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}),
		// The client repeats calls itself, with the next attempt number.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		// A web proxy is for web sites; a lock server is reached directly.
		grpc.WithNoProxy(),
	}
	if s.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{token: s.token, needsTLS: to.tls}))
	}
	return &server{address: to, options: append(options, s.options...), greeting: seen}
}

func (s *servers) count() int { return len(s.list) }

// answerTime is how long one server gets to answer a call that does not wait.
func (s *servers) answerTime() time.Duration { return answerTime(callTimeout, retryFor, s.count()) }

func (s *servers) name(index int) string { return s.list[index].address.String() }

// current is the index of the preferred server.
func (s *servers) current() int { return int(s.preferred.Load()) % s.count() }

// failed moves on from a server, unless another call has done so already.
func (s *servers) failed(index int) {
	if s.count() > 1 {
		s.preferred.CompareAndSwap(int64(index), int64((index+1)%s.count()))
	}
}

// failureOf reads the error of a call to a server. If the server has not answered, the failure says what is wrong with
// all servers of which that is known. If no repetition helps with any of them, it is hopeless.
func (s *servers) failureOf(index int, err error) *failure {
	failed := failureOf(err)
	if failed.reason != "" {
		return failed
	}
	to := s.list[index]
	found := to.greeting.get()
	switch failed.code {
	case codes.Unimplemented:
		found = &finding{text: " " + facts.NotFencepost, permanent: true}
		to.greeting.setRefused(found)
	case codes.Unavailable:
		if why, unresolved := strings.CutPrefix(failed.message, "name resolver error: "); unresolved {
			if why == "produced zero addresses" {
				why = "no such host: the name has no address"
			}
			found = &finding{text: ": " + why}
		} else if found == nil {
			found = &finding{text: ": " + failed.Error()}
		}
	case codes.DeadlineExceeded:
		found = &finding{text: fmt.Sprintf(": no answer within %v", s.answerTime().Round(time.Millisecond))}
	default:
		return failed
	}
	return s.unreached(index, failed.code, found)
}

// unreached is the failure of a server that has not answered.
func (s *servers) unreached(index int, code codes.Code, found *finding) *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[index].trouble = found
	failed := &failure{code: code, found: found, hopeless: true}
	var troubles []string
	for _, each := range s.list {
		if each.trouble != nil {
			troubles = append(troubles, each.address.String()+each.trouble.text)
		}
		seen := each.greeting.get()
		failed.hopeless = failed.hopeless && seen != nil && seen.permanent
	}
	failed.message = strings.Join(troubles, "; ")
	if code != codes.Unimplemented || s.count() > 1 {
		failed.message = "no server could be reached: " + failed.message
	}
	return failed
}

// works records that a server answers.
func (s *servers) works(index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[index].trouble = nil
}

// toldStore records the id of a server's store. If the id is news, it returns the first server that had another store.
// The servers of one client must share a store: a lock of one excludes nobody on another, and a lease that moves there
// is lost.
func (s *servers) toldStore(index int, id string) *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list[index].storeID == id {
		return nil
	}
	s.list[index].storeID = id
	for _, other := range s.list {
		if other.storeID != "" && other.storeID != id {
			return other
		}
	}
	return nil
}

// isTroubled reports whether the latest call to a server got no answer.
func (s *servers) isTroubled(index int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[index].trouble != nil
}

// dial creates a connection, for a session or to share.
func (s *servers) dial(index int) (*grpc.ClientConn, error) {
	return grpc.NewClient(s.list[index].address.target(), s.list[index].options...)
}
