package fencepost

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// handshakes are the credentials of one server. They remember an error that the next handshake of TLS would end with as
// well: the server's certificate is not trusted, or the server refuses that of the client. gRPC reports such an error
// as it reports a server that is away, and connects again.
type handshakes struct {
	credentials.TransportCredentials
	last *handshakeError
}

// A handshakeError is the error of the last handshake with a server, nil if a repetition may help.
type handshakeError struct {
	mu  sync.Mutex
	err error
}

func (e *handshakeError) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (e *handshakeError) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// isHopeless reports whether each handshake ends with the error.
func isHopeless(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	// An alert of the other side has this form.
	var alert *net.OpError
	return errors.As(err, &untrusted) || errors.As(err, &noTLS) || errors.As(err, &alert) && alert.Op == "remote error"
}

func (h handshakes) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		if isHopeless(err) {
			h.last.set(err)
		}
		return nil, nil, err
	}
	return &greetedConn{Conn: connection, last: h.last}, info, nil
}

func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{TransportCredentials: h.TransportCredentials.Clone(), last: h.last}
}

// errNoGreeting is the error of a server that accepts connections and says nothing: gRPC closes them.
var errNoGreeting = fmt.Errorf("the server accepted the connection, and said nothing within %v", connectTimeout)

// A greetedConn sees what follows on the handshake: with TLS 1.3 a server refuses a client's certificate when the
// client reads for the first time.
type greetedConn struct {
	net.Conn
	last *handshakeError
	once sync.Once
}

func (c *greetedConn) Read(into []byte) (int, error) {
	count, err := c.Conn.Read(into)
	c.once.Do(func() {
		if err == nil {
			c.last.set(nil)
		} else if isHopeless(err) {
			c.last.set(err)
		} else if errors.Is(err, net.ErrClosed) {
			err = errNoGreeting
		}
	})
	return count, err
}
