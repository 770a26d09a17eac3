//go:build unix

package fencepost_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// A wrongServer is an address that cannot be called, and what the client says about it.
type wrongServer struct {
	address string
	// text follows the address. It is all of the message if no server of the client is left to be called.
	text string
	// repeated is whether the call is repeated, as it may succeed later.
	repeated bool
	// isRefused is whether the error is no *UnavailableError.
	isRefused bool
	ca        string
}

// listen serves each connection to a new port by a function, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	ended := make(chan struct{})
	all.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				serve(connection)
				<-ended
				_ = connection.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(ended)
		all.Wait()
	})
	return listener.Addr().String()
}

// wrongServers starts what a client may find in place of a server.
func wrongServers(t *testing.T) map[string]wrongServer {
	t.Helper()
	signed := newAuthority(t)
	cert, key := signed.issue(t, "server", false)
	ca := filepath.Join(signed.folder, "ca.pem")
	secure := fenceposttest.Start(t, "--tls-cert", cert, "--tls-key", key).Address
	plain := fenceposttest.Start(t).Address
	redis, _ := startRedis(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(secure)
	must(t, err)
	foreign := grpc.NewServer()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = foreign.Serve(listener) })
	t.Cleanup(func() { foreign.Stop(); serving.Wait() })
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, nobody.Close())
	return map[string]wrongServer{
		"nothing listens": {address: nobody.Addr().String(), text: ": connection refused", repeated: true},
		"the admin port":  {address: adminPort(t), text: " " + facts.NotFencepost, isRefused: true},
		"a web server": {
			address: web.Listener.Addr().String(),
			text:    " " + strings.Replace(facts.NotGRPCOther, "{}", `"HTTP/1.1 404 Not Found"`, 1),
		},
		"a Redis": {
			address: strings.TrimPrefix(redis, "redis://"), text: ` does not speak gRPC (it sent "-ERR unknown command`,
		},
		"plain text to TLS": {address: secure, text: " " + facts.NotGRPCClosedPlain},
		"TLS to plain text": {address: "https://" + plain, text: ": " + facts.TLSNotTLS, ca: ca},
		"silence": {
			address: listen(t, func(net.Conn) {}), text: " " + facts.NotGRPCSilent, repeated: true,
		},
		"silence with TLS": {
			address: "https://" + listen(t, func(net.Conn) {}), text: " " + facts.NotGRPCSilent, repeated: true, ca: ca,
		},
		"a closed connection": {
			address: listen(t, func(c net.Conn) { _ = c.Close() }), text: " " + facts.NotGRPCClosedPlain, repeated: true,
		},
		"not trusted": {address: "https://" + secure, text: ": " + facts.TLSUntrusted},
		"another name": {
			address: "https://localhost:" + port, text: ": " + facts.TLSWrongName + ", only for 127.0.0.1", ca: ca,
		},
		"another service": {address: listener.Addr().String(), text: " " + facts.NotFencepost, isRefused: true},
		"a TLS alert": {
			address: listen(t, func(c net.Conn) { _, _ = c.Write([]byte("\x15\x03\x03\x00\x02\x02\x28")) }),
			text:    " " + facts.NotGRPCTLSAlert,
		},
		"binary": {
			address: listen(t, func(c net.Conn) { _, _ = c.Write([]byte("\x01\x02\x03")) }),
			text:    " " + strings.Replace(facts.NotGRPCOther, "{}", facts.NotGRPCBytes, 1),
		},
	}
}

// adminPort starts a server with an admin port, and returns that.
func adminPort(t *testing.T) string {
	t.Helper()
	server := fenceposttest.Start(t, "--admin-listen", "127.0.0.1:0")
	var found []string
	// The log of the server arrives through a pipe.
	eventually(t, "the admin port is in the log", func() bool {
		found = regexp.MustCompile(`admin port open addr=(\S+)\s`).FindStringSubmatch(server.Log())
		return found != nil
	})
	return found[1]
}

// A server that cannot be called is explained in the words of the facts, at once if no repetition helps.
func TestAWrongServerIsExplained(t *testing.T) {
	t.Parallel()
	for name, wrong := range wrongServers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := fencepost.New(fencepost.Config{Servers: []string{wrong.address}, CAFile: wrong.ca})
			must(t, err)
			t.Cleanup(func() { must(t, client.Close(testContext(t))) })
			want := "fencepost: no server could be reached: " + wrong.address + wrong.text
			if wrong.isRefused {
				want = "fencepost: " + wrong.address + wrong.text
			}
			begun := time.Now()
			var acquiring, getting error
			var calls sync.WaitGroup
			calls.Go(func() { _, acquiring = client.Acquire(testContext(t), "orders/42") })
			calls.Go(func() { _, getting = client.Get(testContext(t), "orders/42") })
			calls.Wait()
			waited := time.Since(begun)
			for call, err := range map[string]error{"acquire": acquiring, "get": getting} {
				if err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%s: got %v, want %s", call, err, want)
				}
				if wrong.isRefused {
					if refused := as[*fencepost.RefusedError](t, err); refused.Code != codes.Unimplemented {
						t.Errorf("%s: got %v", call, err)
					}
				} else if errors.Is(err, fencepost.ErrRefused) || !errors.Is(err, fencepost.ErrUnavailable) {
					t.Errorf("%s: got %v", call, err)
				}
			}
			if repeated := waited > 7*time.Second; repeated != wrong.repeated {
				t.Errorf("it took %v", waited)
			}
		})
	}
}

// All servers that were tried are named, and one that is wrong for ever does not end the call while another one is left.
func TestAWrongServerBesideARightOneIsPassedOver(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	foreign := grpc.NewServer()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = foreign.Serve(listener) })
	defer func() { foreign.Stop(); serving.Wait() }()
	wrong := []string{web.Listener.Addr().String(), listener.Addr().String()}
	right := fenceposttest.Start(t)
	client := newClient(t, append(wrong, right.Address)...)
	must(t, acquire(t, client, "orders/42").Release(testContext(t)))
	if _, err := client.Get(testContext(t), "orders/42"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err = newClient(t, wrong...).Acquire(testContext(t), "orders/42")
	if err == nil || time.Since(begun) > 7*time.Second {
		t.Fatalf("got %v after %v", err, time.Since(begun))
	}
	for _, text := range []string{wrong[0] + " does not speak gRPC (it sent", "; " + wrong[1] + " " + facts.NotFencepost} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}
