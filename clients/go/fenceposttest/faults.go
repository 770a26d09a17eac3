package fenceposttest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// orderTimeout is how long the server may take to carry out an order.
	orderTimeout = 30 * time.Second
	// memoryStore is the only store that a server with a fault port may have.
	memoryStore = "memory:"
)

// orders is a client of fault ports: without a web proxy, whatever the environment says, and without connections that
// stay open.
var orders = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: orderTimeout}

// Lose revokes the lease of a lock, as an operator can: the holder finds the lock lost, with the reason
// [fencepost.LossRevoked]. No delay follows, whatever the holder asked for ([fencepost.WithMinHold],
// [fencepost.WithLockDelay]). The error says that nobody holds the lock.
func (s *Server) Lose(name string) error { return s.order("lose", name) }

// DropReply loses the reply to the next acquire, release or renewal that succeeds, and cuts all connections of the
// server. What was asked for is done: the client asks again, with the same ids. Each call loses one reply.
func (s *Server) DropReply() error { return s.order("drop-reply", "") }

// Pause stops the process, until Resume: from now on nothing is answered and nothing is renewed, and connections stay
// open. The locks of clients are lost when their TTLs are over.
func (s *Server) Pause() error {
	if pauseSignal == nil {
		return errors.New("this system cannot pause a process")
	}
	if err := s.process.Process.Signal(pauseSignal); err != nil {
		return err
	}
	return waitUntilStopped(s.process.Process.Pid)
}

// Resume ends a pause.
func (s *Server) Resume() error { return s.process.Process.Signal(resumeSignal) }

// order has the server carry out an order for a fault.
func (s *Server) order(what, body string) error {
	if s.faults == "" {
		return fmt.Errorf("%s: only a server with the store %s takes orders for faults", what, memoryStore)
	}
	reply, err := orders.Post("http://"+s.faults+"/"+what, "text/plain; charset=utf-8", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusNoContent {
		return errors.New(strings.TrimSpace(string(text)))
	}
	return nil
}

// store is the store that arguments of "fencepost serve" name.
func store(arguments []string) string {
	const option = "--store"
	if place := slices.Index(arguments, option); place >= 0 && place+1 < len(arguments) {
		return arguments[place+1]
	}
	for _, argument := range arguments {
		if named, found := strings.CutPrefix(argument, option+"="); found {
			return named
		}
	}
	return ""
}
