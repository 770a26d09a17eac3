package fencepost

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:7421":              "127.0.0.1:7421",
		"localhost":                   "localhost:7420",
		"my_service-1:65535":          "my_service-1:65535",
		"[::1]:7421":                  "[::1]:7421",
		"[fd00::2]":                   "[fd00::2]:7420",
		"http://10.0.0.1":             "10.0.0.1:7420",
		"HTTP://a:1/":                 "a:1",
		"https://locks.internal":      "https://locks.internal:7420",
		"HTTPS://[::1]:7421/":         "https://[::1]:7421",
		"unix:/run/a.sock":            "unix:/run/a.sock",
		"UNIX:///run/a.sock":          "unix:/run/a.sock",
		" a:1 , https://b:2,unix:/c ": "a:1 https://b:2 unix:/c",
	} {
		found, err := parseAddresses([]string{text})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var shown []string
		for _, address := range found {
			shown = append(shown, address.String())
		}
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestInvalidAddressesNameTheRule(t *testing.T) {
	for text, rule := range map[string]error{
		"": errEmpty, "http://": errEmpty, "a:1,": errEmpty,
		"https://a:1/locks": errPath, "a:1/": errPath,
		"a:0": errPort, "a:65536": errPort, "a:+1": errPort, "a:": errPort, "a:http": errPort,
		"unix:": errUnixPath, "unix:a.sock": errUnixPath, "unix://run/a.sock": errUnixPath, "unix:/run/": errUnixPath,
		"dns:///localhost:7420": errScheme, "redis://localhost": errScheme,
		":7420": errNoHost, "7420": errNoHost,
		"::1": errBrackets, "[::1": errBrackets, "[::1]7420": errBrackets, "[localhost]:1": errBrackets, "a:b:1": errBrackets,
		"1.2.3:7420": errHost, "256.0.0.1": errHost, "not a server": errHost, "höst:1": errHost,
		"user:secret@a:1": errUser,
	} {
		_, err := parseAddresses([]string{text})
		if err == nil || !strings.HasSuffix(err.Error(), rule.Error()) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want %v", text, err, rule)
		}
	}
}

func TestTheEnvironmentNamesTheServers(t *testing.T) {
	t.Setenv("FENCEPOST_SERVER", "a:1, b:2")
	checked, err := Config{}.check()
	if err != nil || len(checked.addresses) != 2 || checked.addresses[1].String() != "b:2" {
		t.Fatalf("got %v, %v", checked.addresses, err)
	}
	t.Setenv("FENCEPOST_SERVER", "")
	checked, err = Config{}.check()
	if err != nil || checked.addresses[0].String() != "127.0.0.1:7420" {
		t.Fatalf("got %v, %v", checked.addresses, err)
	}
	if !strings.Contains(checked.holder, "@") || !strings.Contains(checked.holder, ":") {
		t.Fatalf("got holder %q", checked.holder)
	}
}
