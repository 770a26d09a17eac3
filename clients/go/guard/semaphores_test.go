//go:build unix

package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fencepost/fencepost-go/guard"
)

// A permit is a grant of a semaphore.
type permit struct {
	grant

	permits, slot uint32
}

func (p permit) Permits() uint32 { return p.permits }

func (p permit) Slot() (uint32, bool) { return p.slot, p.slot != 0 }

func TestTheHoldersOfSlotsWriteSideBySide(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		first, second := permit{grant{order, "s10", 10}, 1, 1}, permit{grant{order, "s11", 11}, 1, 2}
		for _, holder := range []permit{second, first, second, first} {
			must(t, orders.write(ctx, order, holder.id, holder))
		}
		// After the next holder of its slot, a holder is stale, and that of the other slot is not.
		must(t, orders.write(ctx, order, "next", permit{grant{order, "s12", 12}, 1, 1}))
		isStale(t, orders.write(ctx, order, "late", first), first.grant, 12)
		expect(t, ctx, orders, order, "next")
		must(t, orders.write(ctx, order, "other", second))
		// The lock itself has another fence.
		must(t, orders.write(ctx, order, "exclusive", grant{order, "w9", 9}))
		expect(t, ctx, orders, order, "exclusive")
	})
}

func TestWhatAGuardRefusesOfASemaphore(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		several, one := permit{grant{order, "s", 10}, 2, 0}, permit{grant{order, "s", 11}, 1, 1}
		for _, err := range []error{
			orders.write(ctx, order, "late", several),
			orders.raiseShared(ctx, several),
			orders.work(ctx, order, "late", several),
		} {
			if !errors.Is(err, guard.ErrNoSlot) || !strings.HasSuffix(err.Error(), ": lock \""+order+"\", 2 permits") {
				t.Fatal(err)
			}
		}
		for _, err := range []error{orders.raiseShared(ctx, one), orders.work(ctx, order, "late", one)} {
			if !errors.Is(err, guard.ErrNotShared) {
				t.Fatal(err)
			}
		}
		expect(t, ctx, orders, order, "new")
	})
}

func TestTheNameOfAFence(t *testing.T) {
	long := strings.Repeat("a", 510)
	for _, c := range []struct {
		grant guard.Grant
		name  string
	}{
		{grant{"a", "g", 1}, "a"},
		{permit{grant{"a", "g", 1}, 0, 0}, "a"},
		{permit{grant{"a", "g", 1}, 1, 7}, "a#7"},
		{permit{grant{long, "g", 1}, 1, 7}, long + "#7"},
	} {
		name, err := guard.FenceName(c.grant)
		must(t, err)
		if name != c.name {
			t.Errorf("got %q, want %q", name, c.name)
		}
	}
	_, err := guard.FenceName(permit{grant{long, "g", 1}, 1, 10})
	if err == nil || !strings.Contains(err.Error(), "longer than 512 bytes: give the lock a shorter name") {
		t.Fatal(err)
	}
}
