package fencepost

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// A server that closes a connection without a word may be away for a moment, or speak TLS where the client does not, or
// the other way round. A probe finds out: a second connection, on which the other one is spoken. It has no credentials.

// probeTimeout bounds a probe.
const probeTimeout = time.Second

// http2Preface is what a client sends first: the preface, and an empty SETTINGS frame.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// probe looks closer at a server that closed a connection early, unless that was known before.
func (h handshakes) probe(raw net.Conn, found *finding) *finding {
	if last := h.greeting.get(); last != nil && last.text == found.text {
		return last
	}
	if h.isLocal {
		return found
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", raw.RemoteAddr().String())
	if err != nil {
		return found
	}
	defer func() { _ = connection.Close() }()
	if h.isTLS && answersPlainText(connection) {
		return &finding{text: ": " + facts.TLSNotTLS, permanent: true}
	}
	if !h.isTLS && answersTLS(ctx, connection) {
		return &finding{text: found.text, permanent: true}
	}
	return found
}

func answersPlainText(connection net.Conn) bool {
	if connection.SetDeadline(time.Now().Add(probeTimeout)) != nil {
		return false
	}
	if _, err := connection.Write([]byte(http2Preface)); err != nil {
		return false
	}
	var first [1]byte
	count, _ := connection.Read(first[:]) // an error is no answer
	return count > 0 && first[0] != tlsAlert[0]
}

func answersTLS(ctx context.Context, connection net.Conn) bool {
	// Nothing is sent on this connection, so it does not matter whose it is.
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	err := tls.Client(connection, config).HandshakeContext(ctx)
	return err == nil || isAlert(err)
}
