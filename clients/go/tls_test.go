//go:build unix

package fencepost_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// An authority issues certificates.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{folder: t.TempDir()}
	a.issue(t, "ca", true)
	return a
}

// issue writes a certificate and its key, and returns the paths of both.
func (a *authority) issue(t *testing.T, name string, isAuthority bool) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isAuthority, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if isAuthority {
		a.certificate, a.key = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	cert, key = filepath.Join(a.folder, name+".pem"), filepath.Join(a.folder, name+".key")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

func TestMutualTLS(t *testing.T) {
	authority := newAuthority(t)
	serverCert, serverKey := authority.issue(t, "server", false)
	clientCert, clientKey := authority.issue(t, "client", false)
	ca := filepath.Join(authority.folder, "ca.pem")
	server := fenceposttest.Start(t, "--tls-cert", serverCert, "--tls-key", serverKey, "--tls-client-ca", ca)
	config := fencepost.Config{
		Servers: []string{"https://" + server.Address}, CAFile: ca, CertFile: clientCert, KeyFile: clientKey,
	}
	client, err := fencepost.New(config)
	must(t, err)
	defer func() { must(t, client.Close(testContext(t))) }()
	must(t, client.Do(testContext(t), "orders/42", func(context.Context, uint64) error { return nil }))

	// A server that is signed by nobody the client trusts is not called.
	config.CAFile = filepath.Join(newAuthority(t).folder, "ca.pem")
	stranger, err := fencepost.New(config)
	must(t, err)
	defer func() { must(t, stranger.Close(testContext(t))) }()
	isHopeless(t, stranger, "no server could be reached: https://"+server.Address+": "+facts.TLSUntrusted)

	// Nor does a server accept a stranger.
	config.CAFile, config.CertFile, config.KeyFile = ca, "", ""
	anonymous, err := fencepost.New(config)
	must(t, err)
	defer func() { must(t, anonymous.Close(testContext(t))) }()
	isHopeless(t, anonymous,
		"no server could be reached: https://"+server.Address+": "+facts.TLSClientCertificateMissing)
}

// isHopeless checks that calls fail at once with a problem that no repetition solves.
func isHopeless(t *testing.T, client *fencepost.Client, problem string) {
	t.Helper()
	begun := time.Now()
	_, acquire := client.Acquire(testContext(t), "orders/42", fencepost.WithWait(time.Hour))
	_, get := client.Get(testContext(t), "orders/42")
	_, watch := client.Watch(testContext(t), "orders/")
	for call, err := range map[string]error{"acquire": acquire, "get": get, "watch": watch} {
		if err == nil || !strings.HasPrefix(err.Error(), "fencepost: "+problem) {
			t.Errorf("%s: got %v", call, err)
		}
	}
	// With repetitions, each call takes 10 s.
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestMistakesOfTheConfigurationAreReported(t *testing.T) {
	token := func(context.Context) (string, error) { return "secret", nil }
	for problem, config := range map[string]fencepost.Config{
		"write https://a:1":                                     {Servers: []string{"a:1"}, CAFile: "ca.pem"},
		"Token must not be sent to a:1 in plain text":           {Servers: []string{"a:1"}, Token: token},
		"CredentialsFile must not be sent to a:1 in plain text": {Servers: []string{"a:1"}, CredentialsFile: "token"},
		"Token and CredentialsFile must not be given together":  {Token: token, CredentialsFile: "token"},
		"cannot read": {Servers: []string{"https://a:1"}, CAFile: "/nowhere.pem"},
		"CertFile and KeyFile must be given together": {Servers: []string{"https://a:1"}, CertFile: "cert.pem"},
		"invalid server address ":                     {Servers: []string{"redis://a"}},
	} {
		if _, err := fencepost.New(config); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v", problem, err)
		}
	}
}

// A guarded server wants a bearer token.
type guarded struct {
	pb.UnimplementedLockServiceServer
}

func (guarded) Session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	headers, _ := metadata.FromIncomingContext(stream.Context())
	if got := headers.Get("authorization"); len(got) != 1 || got[0] != "Bearer right" {
		return status.Error(codes.Unauthenticated, "the token is wrong")
	}
	request, err := stream.Recv()
	if err != nil {
		return err
	}
	contended := &pb.AcquireResponse{Outcome: pb.AcquireResponse_OUTCOME_CONTENDED}
	return stream.Send(&pb.SessionResponse{
		Operation: request.GetOperation(), Message: &pb.SessionResponse_Acquire{Acquire: contended},
	})
}

func TestABearerTokenIsAskedForEachStream(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer()
	pb.RegisterLockServiceServer(server, guarded{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	defer func() { server.Stop(); <-served }()
	tokens := make(chan string, 1)
	client, err := fencepost.New(fencepost.Config{
		Servers: []string{listener.Addr().String()},
		Token:   func(context.Context) (string, error) { return <-tokens, nil },
	})
	must(t, err)
	defer func() { must(t, client.Close(testContext(t))) }()
	// A refusal of the session is that of its operations; it is not repeated.
	tokens <- "wrong"
	_, err = client.TryAcquire(testContext(t), "orders/42")
	if refused := as[*fencepost.RefusedError](t, err); refused.Code != codes.Unauthenticated {
		t.Fatalf("got %v", err)
	}
	tokens <- "right"
	if _, err = client.TryAcquire(testContext(t), "orders/42"); !errors.Is(err, fencepost.ErrContended) {
		t.Fatalf("got %v", err)
	}
}
