package fencepost

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"unicode/utf8"

	"google.golang.org/grpc"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// A Config has the settings of a [Client]. The zero value is a client of the servers that the environment names.
type Config struct {
	// Servers are the addresses of one server and its replicas: host:port, host (port 7420), http://host:port,
	// https://host:port for TLS, or unix:/path; an IPv6 address in brackets. The client stays with one of them until it
	// fails. Default: the variable FENCEPOST_SERVER, where commas separate the addresses; without it 127.0.0.1:7420.
	Servers []string

	// Holder is the label that others see when they ask who holds a lock: at most 256 bytes. Default: user@host:pid.
	Holder string

	// CAFile is a PEM file with the authorities that sign the certificates of https:// servers. Default: the variable
	// FENCEPOST_CA; without it the authorities of this machine.
	CAFile string

	// CertFile and KeyFile are PEM files with the client's certificate and its key, for servers that ask for one. They
	// are read for each connection, so a renewed certificate is used from then on. Default: the variables FENCEPOST_CERT
	// and FENCEPOST_KEY; without them the client shows no certificate.
	CertFile, KeyFile string

	// TLS is used in place of the three files, for https:// servers.
	TLS *tls.Config

	// Token returns a bearer token. It is asked before each call and each stream, and the token is sent as
	// "authorization: Bearer …". It is refused for servers without TLS, except on this machine. If the function fails,
	// the call that needs the token ends with UNAUTHENTICATED and the message of its error, and is not repeated; the
	// stream that keeps the locks is opened again after a pause.
	Token func(context.Context) (string, error)

	// CredentialsFile is a file with a bearer token in one line, in place of Token. It is read before each call and each
	// stream, so a token that was replaced is used from then on. Default: the variable FENCEPOST_CREDENTIALS, unless
	// there is a Token; without it no token is sent.
	CredentialsFile string

	// Logger receives events, on a goroutine of its own: renewals that fail (warn) and work again (info), locks that are
	// lost or forgotten (warn), releases in the background that gave up (warn), servers that fail (info), and servers
	// that do not share a store (warn). They have the attributes lock, token, server, other (another server) and cause,
	// and never a lease id or a bearer token. Default: slog.Default().
	Logger *slog.Logger

	// DialOptions are added to those of each connection, for interceptors and the like.
	DialOptions []grpc.DialOption
}

// settings is a checked configuration.
type settings struct {
	addresses []address
	holder    string
	tls       *tls.Config
	token     func(context.Context) (string, error)
	logger    *slog.Logger
	options   []grpc.DialOption
}

func (c Config) check() (settings, error) {
	servers := c.Servers
	if len(servers) == 0 {
		servers = []string{fallback(os.Getenv(facts.EnvironmentServer), facts.DefaultServer)}
	}
	addresses, err := parseAddresses(servers)
	if err != nil {
		return settings{}, err
	}
	token, setting, err := c.credentials()
	if err != nil {
		return settings{}, err
	}
	checked := settings{
		addresses: addresses,
		holder:    fallback(c.Holder, defaultHolder()),
		token:     token,
		logger:    c.Logger,
		options:   c.DialOptions,
	}
	for _, address := range addresses {
		if address.tls && checked.tls == nil {
			if checked.tls, err = c.tlsConfig(); err != nil {
				return settings{}, err
			}
		}
		if !address.tls && address.path == "" && (c.TLS != nil || c.CAFile != "" || c.CertFile != "" || c.KeyFile != "") {
			return settings{}, fmt.Errorf(
				"fencepost: CAFile, CertFile, KeyFile and TLS are for https:// addresses, not %s: write https://%s", address,
				address)
		}
		if token != nil && !address.tls && !address.isLocal() {
			return settings{}, fmt.Errorf("fencepost: %s must not be sent to %s in plain text: write https://%s", setting,
				address, address)
		}
	}
	return checked, nil
}

// tlsConfig reads the files once, so that problems are found before the first connection.
func (c Config) tlsConfig() (*tls.Config, error) {
	if c.TLS != nil {
		return c.TLS.Clone(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := fallback(c.CAFile, os.Getenv(facts.EnvironmentCA)); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("fencepost: cannot read CAFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("fencepost: CAFile must have a certificate in PEM, and %s has none", file)
		}
	}
	cert := fallback(c.CertFile, os.Getenv(facts.EnvironmentCert))
	key := fallback(c.KeyFile, os.Getenv(facts.EnvironmentKey))
	if (cert == "") != (key == "") {
		return nil, errors.New("fencepost: CertFile and KeyFile must be given together, not one of them")
	}
	if cert != "" {
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return nil, fmt.Errorf("fencepost: cannot use CertFile %s with KeyFile %s: %w", cert, key, err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
	}
	return config, nil
}

// defaultHolder is user@host:pid.
func defaultHolder() string {
	name := "unknown"
	if current, err := user.Current(); err == nil && current.Username != "" {
		name = current.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	label := name + "@" + host + ":" + strconv.Itoa(os.Getpid())
	if len(label) > facts.HolderBytesMax || !utf8.ValidString(label) {
		return "pid:" + strconv.Itoa(os.Getpid())
	}
	return label
}

func fallback(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}
