package fencepost

import (
	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// A sharedConn is the connection of all calls to a server but sessions. A call without an answer retires it: the next
// call opens a new one, and the old one is closed when the last call on it has ended.
type sharedConn struct {
	grpc    *grpc.ClientConn
	server  int
	users   int
	retired bool
}

func (c *sharedConn) stub() pb.LockServiceClient { return pb.NewLockServiceClient(c.grpc) }

// borrow returns the shared connection of a server. Give it back.
func (s *servers) borrow(index int) (*sharedConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	to := s.list[index]
	if to.shared == nil {
		connection, err := s.dial(index)
		if err != nil {
			return nil, err
		}
		to.shared = &sharedConn{grpc: connection, server: index}
		s.open[to.shared] = struct{}{}
	}
	to.shared.users++
	return to.shared, nil
}

// retire keeps new calls off a connection on which a call got no answer.
func (s *servers) retire(used *sharedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used.retired = true
	if to := s.list[used.server]; to.shared == used {
		to.shared = nil
	}
}

// giveBack ends the use of a connection by one call.
func (s *servers) giveBack(used *sharedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used.users--
	if used.retired && used.users == 0 {
		s.drop(used)
	}
}

// drop closes a connection. The mutex is held.
func (s *servers) drop(used *sharedConn) {
	delete(s.open, used)
	_ = used.grpc.Close() // fails only if it is closed already
}

// close ends the shared connections and the calls on them.
func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for used := range s.open {
		s.drop(used)
	}
}
