package fencepost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// dial connects to a server, and records why that fails.
func (g *greeting) dial(ctx context.Context, network, where string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, network, where)
	if err != nil && !errors.Is(err, context.Canceled) {
		g.setUnconnected(unconnected(err), where)
	}
	return connection, err
}

// unconnected is a server to which no connection could be made.
func unconnected(err error) *finding {
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return &finding{text: fmt.Sprintf(": no connection within %v", connectTimeout)}
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return &finding{text: ": " + err.Error()}
}

// handshakes are the credentials of one server. They record what connections to it show.
type handshakes struct {
	credentials.TransportCredentials
	greeting *greeting
	// isTLS and isLocal are whether the address is one of TLS or of a Unix socket, and hasCertificate is whether the
	// client has a certificate to show.
	isTLS, isLocal, hasCertificate bool
}

func (h handshakes) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			found := tlsFinding(err, h.hasCertificate)
			if isClosed(err) {
				found = h.probe(raw, found)
			}
			h.greeting.set(found, raw.RemoteAddr().String())
		}
		return nil, nil, err
	}
	return &greetedConn{Conn: connection, handshakes: h}, info, nil
}

func (h handshakes) Clone() credentials.TransportCredentials {
	h.TransportCredentials = h.TransportCredentials.Clone()
	return h
}

// A greetedConn looks at the first bytes that arrive. With TLS 1.3 a refusal of the client's certificate arrives then.
type greetedConn struct {
	net.Conn
	handshakes handshakes
	// first has the first bytes until greeted.
	first   []byte
	greeted bool
	// broken is whether a write has failed, after which gRPC closes the connection.
	broken atomic.Bool
}

func (c *greetedConn) Write(from []byte) (int, error) {
	count, err := c.Conn.Write(from)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.broken.Store(true)
	}
	return count, err
}

func (c *greetedConn) Read(into []byte) (int, error) {
	count, err := c.Conn.Read(into)
	if c.greeted {
		return count, err
	}
	c.first = append(c.first, into[:min(count, shownMax)]...)
	switch {
	case len(c.first) > 0 && !isSettings(c.first):
		c.greet(foreign(c.first[:min(len(c.first), shownMax)]))
		return 0, errNotHTTP2
	case len(c.first) >= headBytes:
		c.greet(nil)
	case err != nil:
		c.greet(c.ended(err))
	}
	return count, err
}

func (c *greetedConn) greet(found *finding) {
	c.first, c.greeted = nil, true
	c.handshakes.greeting.set(found, c.RemoteAddr().String())
}

// ended is what a connection says that ended before the server had sent anything.
func (c *greetedConn) ended(err error) *finding {
	switch {
	case errors.Is(err, net.ErrClosed) && !c.broken.Load():
		// gRPC closes a connection on which nothing arrives.
		return silent()
	case c.handshakes.isTLS && isAlert(err):
		return tlsFinding(err, c.handshakes.hasCertificate)
	default:
		if c.handshakes.isTLS {
			return closedEarly(false)
		}
		return c.handshakes.probe(c.Conn, closedEarly(!c.handshakes.isLocal))
	}
}
