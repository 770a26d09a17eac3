//go:build unix

package fencepost_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// startRedis starts a Redis on a free port, and returns its URL and its process.
func startRedis(t *testing.T) (url string, process *os.Process) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	must(t, listener.Close())
	program := cmp.Or(os.Getenv("FENCEPOST_REDIS_SERVER"), "redis-server")
	redis := exec.Command(program, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--dir", t.TempDir())
	output, err := redis.StdoutPipe()
	must(t, err)
	must(t, redis.Start())
	t.Cleanup(func() {
		_ = redis.Process.Signal(syscall.SIGCONT)
		_ = redis.Process.Kill()
		_ = redis.Wait()
	})
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return fmt.Sprintf("redis://127.0.0.1:%d", port), redis.Process
		}
	}
	t.Fatal("Redis does not start")
	return "", nil
}

// A proxy forwards TCP connections to a server, until it is told otherwise.
type proxy struct {
	address string

	mu          sync.Mutex
	target      string
	connections []net.Conn
	silent      bool
	// generation counts calls of silenceOpen: connections of an earlier one are silent.
	generation int
	changed    *sync.Cond
	stop       func()
}

func startProxy(t *testing.T, target string) *proxy { return startProxyAt(t, "127.0.0.1:0", target) }

func startProxyAt(t *testing.T, where, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", where)
	must(t, err)
	p := &proxy{address: listener.Addr().String(), target: target}
	p.changed = sync.NewCond(&p.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(client, &all) })
		}
	})
	p.stop = func() {
		_ = listener.Close()
		p.setSilent(false)
		p.disconnect()
		all.Wait()
	}
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) serve(client net.Conn, all *sync.WaitGroup) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	p.mu.Lock()
	generation := p.generation
	p.connections = append(p.connections, client)
	if err == nil {
		p.connections = append(p.connections, server)
	}
	p.mu.Unlock()
	if err != nil {
		_ = client.Close()
		return
	}
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		all.Go(func() { p.forward(generation, way[0], way[1]) })
	}
}

// forward copies bytes. While the connection is silent, it neither reads nor writes.
func (p *proxy) forward(generation int, from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64*1024)
	for {
		count, err := from.Read(buffer)
		p.mu.Lock()
		for p.silent || generation < p.generation {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:count]); err != nil {
			return
		}
	}
}

// forwardTo makes new connections those of another server.
func (p *proxy) forwardTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *proxy) setSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
	p.changed.Broadcast()
}

// silenceOpen makes the open connections silent for ever, as a load balancer that has lost its state. New ones work.
func (p *proxy) silenceOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
}

// disconnect closes all connections, and ends their silence.
func (p *proxy) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation = 0
	p.changed.Broadcast()
	for _, connection := range p.connections {
		_ = connection.Close()
	}
	p.connections = nil
}

// A child is this test program as another process, which holds locks and can be stopped.
type child struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

const childVariable = "FENCEPOST_TEST_CHILD"

func startChild(t *testing.T, what string, arguments ...string) *child {
	t.Helper()
	return startChildWith(t, nil, what, arguments...)
}

func startChildWith(t *testing.T, environment []string, what string, arguments ...string) *child {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := &child{process: exec.Command(self)}
	role := childVariable + "=" + strings.Join(append([]string{what}, arguments...), "\n")
	c.process.Env = append(append(os.Environ(), environment...), role)
	c.process.Stderr = os.Stderr
	c.process.Dir = filepath.Dir(self)
	c.in, err = c.process.StdinPipe()
	must(t, err)
	out, err := c.process.StdoutPipe()
	must(t, err)
	c.out = bufio.NewScanner(out)
	must(t, c.process.Start())
	t.Cleanup(func() {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
	})
	return c
}

// line is the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatal("the child has ended")
	}
	return c.out.Text()
}

func (c *child) tell(t *testing.T, line string) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, line)
	must(t, err)
}

// once closes a channel at the first call.
func once(reached chan struct{}) func(int) {
	closeIt := sync.OnceFunc(func() { close(reached) })
	return func(int) { closeIt() }
}
