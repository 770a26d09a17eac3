package fencepost

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// An address is where a server listens: a host and a port, with or without TLS, or a Unix socket.
type address struct {
	// host is as in a URL: an IPv6 address has its brackets.
	host string
	port int
	tls  bool
	// path is that of a Unix socket.
	path string
}

func (a address) String() string {
	switch {
	case a.path != "":
		return "unix:" + a.path
	case a.tls:
		return "https://" + a.authority()
	default:
		return a.authority()
	}
}

func (a address) authority() string { return a.host + ":" + strconv.Itoa(a.port) }

// target is the address in the words of gRPC.
func (a address) target() string {
	if a.path != "" {
		return "unix:" + a.path
	}
	return "dns:///" + a.authority()
}

// isLocal reports whether a connection does not leave this machine.
func (a address) isLocal() bool {
	if a.path != "" || strings.EqualFold(a.host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(a.host, "[]"))
	return err == nil && ip.IsLoopback()
}

var (
	errUnixPath = errors.New("a Unix socket needs an absolute path, such as unix:/run/fencepost.sock")
	errNoUnix   = errors.New("this system has no Unix sockets; write host:port")
	errScheme   = errors.New(
		"the scheme must be http://, https:// or unix:; write host:port, or https://host:port for TLS")
	errEmpty    = errors.New("it is empty; write host:port, such as 127.0.0.1:7420")
	errUser     = errors.New("a user or a password in front of @ is not supported; write host:port")
	errPath     = errors.New("nothing may follow host:port, and this has a path")
	errNoHost   = errors.New("the host is missing; write host:port, such as localhost:7420")
	errHost     = errors.New("the host must be an IP address, or a name of letters, digits, hyphens, underscores and dots")
	errBrackets = errors.New("an IPv6 address needs brackets, such as [::1]:7420")
	errPort     = errors.New("the port must be a number from 1 to 65535")
)

// parseAddresses reads a list of addresses, each of which may itself be a list separated by commas.
func parseAddresses(list []string) ([]address, error) {
	var found []address
	for _, texts := range list {
		for text := range strings.SplitSeq(texts, ",") {
			text = strings.TrimSpace(text)
			parsed, err := parseAddress(text)
			if err != nil {
				return nil, fmt.Errorf("fencepost: invalid server address %q: %w", withoutPassword(text), err)
			}
			found = append(found, parsed)
		}
	}
	return found, nil
}

// withoutPassword hides what may be a password: the part before @.
func withoutPassword(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		return "***" + text[at:]
	}
	return text
}

func parseAddress(text string) (address, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		if scheme, path, ok := strings.Cut(text, ":"); ok && strings.EqualFold(scheme, "unix") {
			return parseUnix(path)
		}
		scheme, rest = "http", text
	}
	scheme = strings.ToLower(scheme)
	if scheme == "unix" {
		return parseUnix(rest)
	}
	if scheme != "http" && scheme != "https" {
		return address{}, errScheme
	}
	if found {
		rest = strings.TrimSuffix(rest, "/")
	}
	switch {
	case rest == "":
		return address{}, errEmpty
	case strings.Contains(rest, "@"):
		return address{}, errUser
	case strings.ContainsAny(rest, "/?#"):
		return address{}, errPath
	}
	host, digits, err := splitPort(rest)
	if err != nil {
		return address{}, err
	}
	port := facts.DefaultPort
	if digits != nil {
		number, err := strconv.ParseUint(*digits, 10, 16)
		if err != nil || number == 0 {
			return address{}, errPort
		}
		port = int(number)
	}
	return address{host: host, port: port, tls: scheme == "https"}, nil
}

func parseUnix(path string) (address, error) {
	if runtime.GOOS == "windows" {
		return address{}, errNoUnix
	}
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "\x00") {
		return address{}, errUnixPath
	}
	return address{path: path}, nil
}

// splitPort splits off the port, nil if there is none, and checks the host.
func splitPort(text string) (host string, port *string, err error) {
	if inside, ok := strings.CutPrefix(text, "["); ok {
		literal, rest, closed := strings.Cut(inside, "]")
		ip, err := netip.ParseAddr(literal)
		if !closed || err != nil || !ip.Is6() {
			return "", nil, errBrackets
		}
		host = "[" + literal + "]"
		if rest == "" {
			return host, nil, nil
		}
		digits, ok := strings.CutPrefix(rest, ":")
		if !ok {
			return "", nil, errBrackets
		}
		return host, &digits, nil
	}
	if strings.Count(text, ":") > 1 {
		return "", nil, errBrackets
	}
	host, digits, hasPort := strings.Cut(text, ":")
	if host == "" || !hasPort && strings.Trim(host, "0123456789") == "" {
		return "", nil, errNoHost
	}
	if !isHost(host) {
		return "", nil, errHost
	}
	if hasPort {
		port = &digits
	}
	return host, port, nil
}

func isHost(host string) bool {
	if strings.Trim(host, "0123456789.") == "" {
		ip, err := netip.ParseAddr(host)
		return err == nil && ip.Is4()
	}
	for _, char := range host {
		letter := 'a' <= char && char <= 'z' || 'A' <= char && char <= 'Z' || '0' <= char && char <= '9'
		if !letter && !strings.ContainsRune("-_.", char) {
			return false
		}
	}
	return true
}
