package fencepost

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// The numbers of TLS alerts (RFC 8446, section 6).
const (
	alertHandshakeFailure    tls.AlertError = 40
	alertBadCertificate      tls.AlertError = 42
	alertAccessDenied        tls.AlertError = 49
	alertCertificateRequired tls.AlertError = 116
	alertNoProtocol          tls.AlertError = 120
)

// noHTTP2 is the text for a TLS server without HTTP/2.
const noHTTP2 = "the TLS handshake failed: the server offers no HTTP/2 (ALPN h2) on this port"

// isAlert reports whether an error is a TLS alert of the other side. The alert itself has no type to compare with.
func isAlert(err error) bool {
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error"
}

// isClosed reports whether the other side has closed a connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// tlsFinding says why TLS with a server failed.
func tlsFinding(err error, hasCertificate bool) *finding {
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	permanent := func(text string) *finding { return &finding{text: ": " + text, permanent: true} }
	switch {
	case errors.As(err, &untrusted):
		return permanent(certificateProblem(untrusted.Err))
	case errors.As(err, &noTLS):
		return permanent(facts.TLSNotTLS)
	case isAlert(err):
		return permanent(alertProblem(err, hasCertificate))
	case errors.Is(err, context.DeadlineExceeded):
		return silent()
	case isClosed(err):
		return &finding{
			text: ": the TLS handshake failed: the server closed the connection; it may be a port without TLS",
		}
	case strings.Contains(err.Error(), "ALPN"):
		// gRPC has no type for this error.
		return permanent(noHTTP2)
	default:
		return &finding{text: ": the TLS handshake failed: " + err.Error()}
	}
}

func certificateProblem(err error) string {
	var invalid x509.CertificateInvalidError
	var wrongName x509.HostnameError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return facts.TLSUntrusted
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert.NotBefore.After(time.Now()):
		return "the server's certificate is not valid yet, by the clock of this machine"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return facts.TLSExpired
	case errors.As(err, &wrongName):
		names := wrongName.Certificate.DNSNames
		for _, ip := range wrongName.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		if len(names) == 0 {
			return facts.TLSWrongName + ", nor for any other"
		}
		return facts.TLSWrongName + ", only for " + strings.Join(names, ", ")
	default:
		return fmt.Sprintf("the server's certificate cannot be used: %v", err)
	}
}

func alertProblem(err error, hasCertificate bool) string {
	is := func(alerts ...tls.AlertError) bool {
		for _, alert := range alerts {
			if strings.HasSuffix(err.Error(), alert.Error()) {
				return true
			}
		}
		return false
	}
	name := err.Error()[strings.LastIndex(err.Error(), ": ")+2:]
	switch {
	case is(alertCertificateRequired):
		return facts.TLSClientCertificateMissing
	case is(alertNoProtocol):
		return noHTTP2
	case hasCertificate:
		return fmt.Sprintf("%s (TLS alert: %s)", facts.TLSClientCertificateRefused, name)
	case is(alertHandshakeFailure, alertBadCertificate, alertAccessDenied):
		// TLS 1.2 has no alert of its own for a missing certificate.
		return facts.TLSClientCertificateMissing
	default:
		return fmt.Sprintf("the TLS handshake failed: the server sent the alert %q", name)
	}
}
