package fencepost

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// What connections to a server show first: whether it can be called over gRPC. gRPC reports most of that as it reports a
// server that is away, and connects again. So the evidence is collected here, from each connection.

// A finding is why a server cannot be called.
type finding struct {
	// text follows the address of the server: it begins with a space or a colon.
	text string
	// permanent is whether it stays until somebody changes an address, a certificate or a server.
	permanent bool
}

// diagnosis is the text without the address.
func (f finding) diagnosis() string { return strings.TrimLeft(f.text, ": ") }

// A greeting has what the latest connection to a server showed: nil if it speaks HTTP/2, or if there was none yet.
type greeting struct {
	mu    sync.Mutex
	found *finding
	// at is the address of that connection: a name may have several.
	at string
}

func (g *greeting) get() *finding {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.found
}

func (g *greeting) set(found *finding, at string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found, g.at = found, at
}

// setRefused notes what a call over the latest connection showed.
func (g *greeting) setRefused(found *finding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found = found
}

// setUnconnected notes that no connection could be made to an address. Another address of the same name may have shown
// more: on many machines localhost is 127.0.0.1 and ::1, and a server listens on one of them.
func (g *greeting) setUnconnected(found *finding, at string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found != nil && g.found.permanent && g.at != at {
		return
	}
	g.found, g.at = found, at
}

const (
	// headBytes is the length of the header of an HTTP/2 frame: 3 bytes of length, then type, flags and stream.
	headBytes = 9
	// shownMax is the maximum number of bytes that an error shows of a foreign protocol.
	shownMax = 60
)

// settingsHead is the expected first frame of a server after its length: SETTINGS, not acknowledged, on stream 0.
var settingsHead = []byte{4, 0, 0, 0, 0, 0}

// tlsAlert is the start of the TLS record with which a TLS server refuses plain text.
var tlsAlert = []byte{0x15, 0x03}

// errNotHTTP2 ends a connection of which the first bytes are those of another protocol.
var errNotHTTP2 = errors.New("the server does not speak HTTP/2")

// isSettings reports whether the first bytes of a connection may be those of a server's SETTINGS frame.
func isSettings(first []byte) bool {
	// That frame is never 64 KiB or longer, but text looks like that.
	return first[0] == 0 && (len(first) <= 3 || bytes.HasPrefix(settingsHead, first[3:min(len(first), headBytes)]))
}

// foreign is what the first bytes of another protocol say.
func foreign(first []byte) *finding {
	if bytes.HasPrefix(first, tlsAlert) {
		return &finding{text: " " + facts.NotGRPCTLSAlert, permanent: true}
	}
	shown := facts.NotGRPCBytes
	line := first
	if end := bytes.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end]
	}
	if len(line) > 0 && utf8.Valid(line) && !bytes.ContainsFunc(line, unicode.IsControl) {
		shown = fmt.Sprintf("%q", line)
	}
	return &finding{text: " " + strings.Replace(facts.NotGRPCOther, "{}", shown, 1), permanent: true}
}

// silent is a server that accepted a connection and sent nothing. It may be stopped for a moment.
func silent() *finding { return &finding{text: " " + facts.NotGRPCSilent} }

// closedEarly is a server that closed a connection before it sent anything. A TLS server may do so to plain text.
func closedEarly(isPlain bool) *finding {
	if isPlain {
		return &finding{text: " " + facts.NotGRPCClosedPlain}
	}
	return &finding{text: " " + facts.NotGRPCClosed}
}
