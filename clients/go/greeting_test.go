package fencepost

import "testing"

// On many machines localhost is 127.0.0.1 and ::1, and a server listens on one of them.
func TestAnAddressWithoutAConnectionHidesNothingOfAnotherOne(t *testing.T) {
	wrong, refused := &finding{text: ": wrong name", permanent: true}, &finding{text: ": connection refused"}
	var seen greeting
	seen.set(wrong, "127.0.0.1:1")
	if seen.setUnconnected(refused, "[::1]:1"); seen.get() != wrong {
		t.Errorf("got %v: nobody listens on the other address", seen.get())
	}
	if seen.setUnconnected(refused, "127.0.0.1:1"); seen.get() != refused {
		t.Errorf("got %v: the server is gone", seen.get())
	}
	slow := &finding{text: " is silent"}
	seen.set(slow, "127.0.0.1:1")
	if seen.setUnconnected(refused, "[::1]:1"); seen.get() != refused {
		t.Errorf("got %v: what may pass by itself is told as the latest connection shows it", seen.get())
	}
	seen.set(nil, "127.0.0.1:1")
	seen.setRefused(wrong)
	if seen.setUnconnected(refused, "127.0.0.1:1"); seen.get() != refused {
		t.Errorf("got %v: another server may come", seen.get())
	}
}
