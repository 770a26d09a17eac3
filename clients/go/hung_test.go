//go:build unix

package fencepost_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// Servers that hang, as a stopped process does: it accepts connections and says nothing, or has an open one and answers
// no call on it. Each of them must leave time for the next server.

// mute starts a server that greets and answers no call.
func mute(t *testing.T) string {
	t.Helper()
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		// The server may see the end of the call's time before the client does.
		return status.FromContextError(stream.Context().Err()).Err()
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return listener.Addr().String()
}

// hungCalls are calls of which each finds a server that answers, behind others that hang.
var hungCalls = map[string]func(t *testing.T, client *fencepost.Client){
	"get": func(t *testing.T, client *fencepost.Client) {
		_, err := client.Get(testContext(t), "orders/42")
		must(t, err)
	},
	"check a token": func(t *testing.T, client *fencepost.Client) {
		_, err := client.CheckToken(testContext(t), "orders/42", 1)
		must(t, err)
	},
	"list": func(t *testing.T, client *fencepost.Client) {
		for _, err := range client.List(testContext(t), "none/") {
			must(t, err)
		}
	},
	"observe": func(t *testing.T, client *fencepost.Client) {
		for _, err := range client.Observe(testContext(t), "orders/42") {
			must(t, err)
			break
		}
	},
	"watch": func(t *testing.T, client *fencepost.Client) {
		watcher, err := client.Watch(testContext(t), "none/")
		must(t, err)
		watcher.Close()
	},
	"acquire, keep and release": func(t *testing.T, client *fencepost.Client) {
		lock, err := client.TryAcquire(testContext(t), t.Name(), fencepost.WithTTL(2*time.Second))
		must(t, err)
		outlive(t, 2*time.Second, lock)
		must(t, lock.Release(testContext(t)))
	},
	"acquire with a wait": func(t *testing.T, client *fencepost.Client) {
		must(t, acquire(t, client, t.Name()).Release(testContext(t)))
	},
}

func TestServersThatHangLeaveTimeForTheNextOne(t *testing.T) {
	t.Parallel()
	silent := func() string { return listen(t, func(net.Conn) {}) }
	greets := func() string { return mute(t) }
	for name, hung := range map[string]func() string{"silent": silent, "greets": greets} {
		servers := []string{hung(), hung(), fenceposttest.Start(t).Address}
		for called, call := range hungCalls {
			t.Run(name+"/"+called, func(t *testing.T) {
				t.Parallel()
				call(t, newClient(t, servers...))
			})
		}
	}
}
