//go:build unix

package fencepost_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// Two work on leaves below one parent. Nobody else has the parent meanwhile.
func TestASetSharesTheParentsOfALeaf(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, pass)
	client, other := newClient(t, front.address), newClient(t, front.address)
	ctx, parents := testContext(t), fencepost.WithSharedNames("files", "files/a", "files")
	first, err := client.AcquireAll(ctx, []string{"files/a/1", "files/a/1"}, parents)
	must(t, err)
	if names := first.Names(); !slices.Equal(names, []string{"files", "files/a", "files/a/1"}) {
		t.Fatalf("got %q", names)
	}
	var sent []string
	for _, request := range front.acquires() {
		sent = append(sent, request.GetLockName())
		if shared := request.GetMode() == pb.LockMode_LOCK_MODE_SHARED; shared != (request.GetLockName() != "files/a/1") {
			t.Fatalf("sent %v", request)
		}
	}
	if !slices.Equal(sent, first.Names()) {
		t.Fatalf("sent %q", sent)
	}
	if parent, leaf := first.Lock("files"), first.Lock("files/a/1"); parent.Mode() != fencepost.ModeShared ||
		leaf.Mode() != fencepost.ModeExclusive {
		t.Fatalf("the parent is %v, the leaf %v", parent.Mode(), leaf.Mode())
	}
	second, err := other.TryAll(ctx, []string{"files/a/2"}, parents)
	must(t, err)
	_, err = other.TryAll(ctx, []string{"files/a/1"}, parents)
	if failed := as[*fencepost.NotAllAcquiredError](t, err); failed.Name != "files/a/1" {
		t.Fatal(err)
	}
	if _, err := other.TryAcquire(ctx, "files/a"); !errors.Is(err, fencepost.ErrContended) {
		t.Fatalf("got %v", err)
	}
	must(t, errors.Join(first.Release(ctx), second.Release(ctx)))
	acquire(t, other, "files/a")
}

func TestASetWithTwoModesOfOneNameIsNotSent(t *testing.T) {
	t.Parallel()
	nobody, ctx := newClient(t, "127.0.0.1:1"), testContext(t) // what is refused here is not sent
	shared := fencepost.WithSharedNames("b", "c")
	refused := func(options ...fencepost.AcquireOption) error {
		_, err := nobody.AcquireAll(ctx, []string{"a", "x"}, append(options, shared)...)
		return err
	}
	_, twice := nobody.TryAll(ctx, []string{"a", "b"}, shared)
	_, alone := nobody.Acquire(ctx, "a", shared)
	for _, refusal := range []struct {
		err   error
		field string
		text  string
	}{
		{twice, "mode", `mode of "b" cannot be both EXCLUSIVE and SHARED`},
		{refused(fencepost.WithShared()), "mode", "mode cannot be SHARED: the locks of a set are exclusive, except for"},
		{alone, "names", "names are those of several locks"},
	} {
		refused := as[*fencepost.RefusedError](t, refusal.err)
		if refused.Violations[0].Field != refusal.field || !strings.HasPrefix(refused.Error(), "fencepost: "+refusal.text) {
			t.Errorf("got %v, want %s", refused, refusal.text)
		}
	}
}
