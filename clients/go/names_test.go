//go:build linux

package fencepost_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// names are the addresses of the names below .test, for the resolver of this process.
var names sync.Map

// The resolver of this process is replaced before anything uses it.
func init() {
	net.DefaultResolver = &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go answerNames(theirs)
			return ours, nil
		},
	}
}

// answerNames is a DNS server on one connection. As on TCP, each message follows on its length.
func answerNames(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	for {
		var length [2]byte
		if _, err := io.ReadFull(connection, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(connection, query); err != nil {
			return
		}
		answer, err := answerName(query)
		if err != nil {
			return
		}
		answer = append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)
		if _, err := connection.Write(answer); err != nil {
			return
		}
	}
}

func answerName(query []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil {
		return nil, err
	}
	question := message.Questions[0]
	message.Response, message.Authoritative, message.Additionals = true, true, nil
	found, known := names.Load(strings.TrimSuffix(question.Name.String(), "."))
	if !known {
		message.RCode = dnsmessage.RCodeNameError
	} else if question.Type == dnsmessage.TypeA {
		body := &dnsmessage.AResource{A: [4]byte(net.ParseIP(found.(string)).To4())}
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 3600}, Body: body,
		}}
	}
	return message.Pack()
}

// A server moves to another address. Its name is resolved anew for the next connection, of a session and of calls.
func TestAServerThatMovedCostsNoLock(t *testing.T) {
	t.Parallel()
	target := fenceposttest.Start(t).Address
	before := startProxy(t, target)
	_, port, err := net.SplitHostPort(before.address)
	must(t, err)
	names.Store("moving.test", "127.0.0.1")
	client := newClient(t, "moving.test:"+port)
	const ttl = 10 * time.Second
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	_, err = client.Get(testContext(t), "orders/42")
	must(t, err)
	names.Store("moving.test", "127.0.0.2")
	startProxyAt(t, "127.0.0.2:"+port, target)
	before.stop()
	begun := time.Now()
	_, err = client.Get(testContext(t), "orders/42")
	must(t, err)
	must(t, acquire(t, client, "orders/43").Release(testContext(t)))
	if took := time.Since(begun); took > retryTime/2 {
		t.Fatalf("it took %v", took)
	}
	outlive(t, ttl/2, lock)
	must(t, lock.Release(testContext(t)))
}

func TestANameThatIsNotKnownIsReported(t *testing.T) {
	t.Parallel()
	_, err := newClient(t, "nobody.test").Acquire(testContext(t), "orders/42")
	text := as[*fencepost.UnavailableError](t, err).Error()
	if !strings.HasPrefix(text, "fencepost: no server could be reached: nobody.test:7420: ") ||
		!strings.Contains(text, "no such host") {
		t.Fatalf("got %v", err)
	}
}

// The variables for web proxies are read once, so another process has them.
func TestNoWebProxyIsObeyed(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t).Address
	_, port, err := net.SplitHostPort(server)
	must(t, err)
	c := startChildWith(t, deadProxies(), "reach", "server.test:"+port)
	if got := c.line(t); got != "reached" {
		t.Fatal(got)
	}
}

// deadProxies are all variables that name a web proxy, with an address where nothing listens.
func deadProxies() []string {
	var variables []string
	for _, name := range []string{"http_proxy", "https_proxy", "grpc_proxy", "all_proxy"} {
		for _, variable := range []string{name, strings.ToUpper(name)} {
			variables = append(variables, variable+"=http://127.0.0.1:1")
		}
	}
	return variables
}

func init() { childRoles["reach"] = reach }

// reach makes a call of each kind to a server by name: addresses of this machine would be reached without a proxy.
func reach(arguments []string) {
	names.Store("server.test", "127.0.0.1")
	client := childClient(arguments[0])
	lock, err := client.Acquire(context.Background(), "orders/42")
	if err == nil {
		_, err = client.Get(context.Background(), lock.Name())
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("reached")
}
