package fencepost

import (
	"context"
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
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/facts"
)

const (
	// connectTimeout bounds one attempt to connect, with the TLS handshake.
	connectTimeout = facts.ConnectTimeoutMS * time.Millisecond
	// pingInterval is the interval of HTTP/2 pings on a connection, and pingTimeout the timeout for their answer. They
	// are how a connection without leases is found to be dead; gRPC allows no shorter interval.
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
	// tokenTimeout is how long the function for the token of a session may take. It does not count as time of a server.
	tokenTimeout = 5 * time.Second
)

// servers are the replicas of the service, and which one to use. They share one state, so any of them will do: calls
// stay with one that works, and move on when it fails.
//
// Each session has a connection of its own, so that a new session never depends on a connection that is dead without
// notice, and never queues behind other calls. All other calls to a server share one connection.
type servers struct {
	addresses []address
	options   [][]grpc.DialOption
	token     func(context.Context) (string, error)
	// handshakes are the errors of the last handshakes.
	handshakes []*handshakeError
	preferred  atomic.Int64

	mu     sync.Mutex
	shared []*grpc.ClientConn
	closed bool
}

func newServers(s settings) *servers {
	all := &servers{addresses: s.addresses, token: s.token, shared: make([]*grpc.ClientConn, len(s.addresses))}
	for _, address := range s.addresses {
		transport, last := insecure.NewCredentials(), &handshakeError{}
		all.handshakes = append(all.handshakes, last)
		if address.tls {
			transport = credentials.NewTLS(s.tls)
		}
		options := []grpc.DialOption{
			grpc.WithTransportCredentials(handshakes{TransportCredentials: transport, last: last}),
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
			// A forward proxy is for web sites; a lock server is reached directly.
			grpc.WithNoProxy(),
		}
		if s.token != nil {
			options = append(options, grpc.WithPerRPCCredentials(bearer{token: s.token, needsTLS: address.tls}))
		}
		all.options = append(all.options, append(options, s.options...))
	}
	return all
}

func (s *servers) count() int { return len(s.addresses) }

// current is the index of the preferred server.
func (s *servers) current() int { return int(s.preferred.Load()) % len(s.addresses) }

// failed moves on from a server, unless another call has done so already.
func (s *servers) failed(index int) {
	if s.count() > 1 {
		s.preferred.CompareAndSwap(int64(index), int64((index+1)%s.count()))
	}
}

// failureOf reads the status of a call to a server. If no handshake with any server can succeed, a repetition is no
// help.
func (s *servers) failureOf(index int, err error) *failure {
	failed := failureOf(err)
	if failed.code != codes.Unavailable || s.handshakes[index].get() == nil {
		return failed
	}
	for _, last := range s.handshakes {
		if last.get() == nil {
			return failed
		}
	}
	failed.hopeless = true
	return failed
}

// dial creates a connection for a session.
func (s *servers) dial(index int) (*grpc.ClientConn, error) {
	return grpc.NewClient(s.addresses[index].target(), s.options[index]...)
}

// stub returns the stub of all calls but sessions.
func (s *servers) stub(index int) (pb.LockServiceClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.shared[index] == nil {
		connection, err := s.dial(index)
		if err != nil {
			return nil, err
		}
		s.shared[index] = connection
	}
	return pb.NewLockServiceClient(s.shared[index]), nil
}

// close ends the shared connections and the calls on them.
func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, connection := range s.shared {
		if connection != nil {
			_ = connection.Close() // fails only if it is closed already
		}
	}
}

// bearer adds a bearer token to each call.
type bearer struct {
	token    func(context.Context) (string, error)
	needsTLS bool
}

// askedFirst is the key of a token in the context of a call for which it was asked before.
type askedFirst struct{}

// authorized asks for the token of a session. The call with the context that it returns does not ask again.
func (s *servers) authorized(ctx context.Context) (context.Context, error) {
	if s.token == nil {
		return ctx, nil
	}
	asking, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, err := s.token(asking)
	if err != nil {
		return nil, noToken(ctx, err)
	}
	return context.WithValue(ctx, askedFirst{}, token), nil
}

// noToken is the error of the call that needs a token. It is final, whatever the function returned: the same call would
// not be better, and the next one asks again.
func noToken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Errorf(codes.Unauthenticated, "no bearer token: %v", err)
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, known := ctx.Value(askedFirst{}).(string)
	if !known {
		var err error
		if token, err = b.token(ctx); err != nil {
			return nil, noToken(ctx, err)
		}
	}
	if token = strings.TrimSpace(token); token == "" {
		return nil, status.Error(codes.Unauthenticated, "the token is empty")
	}
	// The token itself is not shown: errors end up in logs.
	if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, status.Error(codes.Unauthenticated, "the token has a line end or another character that cannot be sent")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is false for servers on this machine without TLS; the configuration allows no others.
func (b bearer) RequireTransportSecurity() bool { return b.needsTLS }
