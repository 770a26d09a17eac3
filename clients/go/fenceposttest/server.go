// Package fenceposttest has what tests of programs that take locks need: a server, which is a process of its own and
// fails when it is told to ([Start]), and a lock without a server ([NewFakeLock]).
package fenceposttest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// startTimeout is how long a server may take to listen, and stopTimeout how long it may take to end.
	startTimeout, stopTimeout = 30 * time.Second, 30 * time.Second
	// binaryVariable is the environment variable that names the program.
	binaryVariable = "FENCEPOST_BIN"
)

// A Server is a Fencepost server, a process of its own on a free port of 127.0.0.1. It fails when it is told to.
//
//	server := fenceposttest.Start(t)
//	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}})
//	…
//	lock, err := client.Acquire(ctx, "orders/42")
//	…
//	err = server.Lose("orders/42") // lock.Context() ends
type Server struct {
	// Address is the address for [github.com/fencepost/fencepost-go.Config].
	Address string

	process *exec.Cmd
	// faults is the address of the port for faults; empty if the server has none.
	faults string
	log    logBuffer
	ended  chan struct{}
}

// Start starts a server as [Launch] does, and stops it when the test ends.
func Start(tb testing.TB, arguments ...string) *Server {
	tb.Helper()
	server, err := Launch(arguments...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Stop)
	return server
}

// Launch starts a server that keeps its locks in memory, for code without a test at hand, such as TestMain: stop it.
// The program is the one that the variable FENCEPOST_BIN names; otherwise target/debug/fencepost of the repository that
// this source is part of, or fencepost on the PATH. The arguments are added to those of "fencepost serve". With another
// store than memory:, the server takes no orders for faults ([Server.Lose], [Server.DropReply]).
func Launch(arguments ...string) (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "fenceposttest-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // a folder that is left over does no harm
	portFile := filepath.Join(folder, "port")
	if !slices.Contains(arguments, "--admin-listen") {
		arguments = append([]string{"--admin-listen", "none"}, arguments...)
	}
	kept := store(arguments)
	if kept == "" {
		kept = memoryStore
		arguments = append([]string{"--store", kept}, arguments...)
	}
	if kept == memoryStore {
		arguments = append([]string{"--test-faults", "127.0.0.1:0"}, arguments...)
	}
	arguments = append([]string{
		"serve", "--listen", "127.0.0.1:0", "--port-file", portFile, "--admin-service", "everywhere",
	}, arguments...)
	server := &Server{process: exec.Command(binary, arguments...), ended: make(chan struct{})}
	server.process.Stderr = &server.log
	if err := server.process.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", binary, err)
	}
	go func() {
		_ = server.process.Wait() // how it ended is in its log
		close(server.ended)
	}()
	deadline := time.After(startTimeout)
	for {
		// The server renames the whole file to this name when it listens.
		if text, err := os.ReadFile(portFile); err == nil {
			addresses := strings.Fields(string(text))
			server.Address = addresses[0]
			if kept == memoryStore {
				server.faults = addresses[len(addresses)-1]
			}
			return server, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-server.ended:
			return nil, fmt.Errorf("the server ended: %s", server.Log())
		case <-deadline:
			server.Kill()
			return nil, fmt.Errorf("the server does not listen after %v: %s", startTimeout, server.Log())
		}
	}
}

// Binary finds the program.
func Binary() (string, error) {
	if named := os.Getenv(binaryVariable); named != "" {
		return named, nil
	}
	if folder, err := os.Getwd(); err == nil {
		for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
			built := filepath.Join(folder, "target", "debug", "fencepost")
			if info, err := os.Stat(built); err == nil && !info.IsDir() {
				return built, nil
			}
		}
	}
	found, err := exec.LookPath("fencepost")
	if err != nil {
		return "", errors.New("there is no Fencepost server: install it, or set " + binaryVariable + " to its path")
	}
	return found, nil
}

// Stop asks the server to end, as SIGTERM does, and waits until it has ended. It may be called again.
func (s *Server) Stop() {
	s.Signal(stopSignal)
	s.Signal(resumeSignal)
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		s.Kill()
	}
}

// Kill ends the server at once, and waits until it has ended.
func (s *Server) Kill() {
	_ = s.process.Process.Kill() // fails only if it has ended
	<-s.ended
}

// Signal sends a signal to the server.
func (s *Server) Signal(signal os.Signal) {
	_ = s.process.Process.Signal(signal) // fails only if it has ended
}

// Log is what the server has written to its log.
func (s *Server) Log() string { return s.log.String() }

// Command runs a command of the program against this server, and returns what it prints.
func (s *Server) Command(arguments ...string) (string, error) {
	command := exec.Command(s.process.Path, arguments...)
	command.Env = append(os.Environ(), "FENCEPOST_SERVER="+s.Address)
	output, err := command.CombinedOutput()
	return string(output), err
}

// A logBuffer keeps the log of a process.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
