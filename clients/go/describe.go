package fencepost

import (
	"context"
	"fmt"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// Describe replaces what others see of the lock: its metadata, all of it, and its label unless holder is empty. The
// leader of an election tells its address so, and a job its progress. [Client.Observe] and [Client.Get] show it at
// once. Nothing else of the lock changes. It returns the number of the description, which others see as
// [LockHolder.Description].
//
// Errors: a [*LostError] or [ErrReleased] if the lock has ended; a [*RefusedError] (INVALID_FIELD, NOT_ALL_SERVERS;
// DESCRIPTION_OUTDATED if another process that has the same lease by its request id described it meanwhile); an
// [*OutcomeUnknownError] if no server has answered within 10 s, or ctx was done before that. Describe again after it: a
// late copy of an earlier description replaces no later one.
func (l *Lock) Describe(ctx context.Context, metadata map[string]string, holder string) (uint64, error) {
	defer runtime.KeepAlive(l)
	if err := checkTexts(l.lease.name, "", holder, metadata); err != nil {
		return 0, err
	}
	return l.owner.describe(ctx, l.lease, metadata, holder)
}

func (c *Client) describe(
	ctx context.Context, held *lease, metadata map[string]string, holder string,
) (uint64, error) {
	if err := held.beginChange(ctx); err != nil {
		return 0, err
	}
	defer held.endChange()
	request := &pb.DescribeRequest{
		LockName: held.name, LeaseId: held.id, Metadata: metadata, Number: held.description,
	}
	if holder != "" {
		request.Holder = &holder
	}
	if held.description != 0 {
		held.description++ // also if it is given up: a late copy must not win
	}
	describe := func(
		ctx context.Context, stub pb.LockServiceClient, option grpc.CallOption,
	) (*pb.DescribeResponse, error) {
		return stub.Describe(ctx, request, option)
	}
	answer, err := change(ctx, c, held, describe)
	if err != nil {
		return 0, err
	}
	switch answer.GetOutcome() {
	case pb.DescribeResponse_OUTCOME_DESCRIBED:
		held.described(answer.GetNumber(), holder)
		return answer.GetNumber(), nil
	case pb.DescribeResponse_OUTCOME_OUTDATED:
		held.described(answer.GetNumber(), "")
		return 0, &RefusedError{
			Name: held.name, Code: codes.Aborted, Reason: "DESCRIPTION_OUTDATED",
			Message: fmt.Sprintf("another process described %s meanwhile, with number %d", held.name, answer.GetNumber()),
		}
	case pb.DescribeResponse_OUTCOME_LOST:
		return 0, c.toldLost(held, held.lost(answer.GetEnd(), answer.GetSuccessorToken()))
	default:
		return 0, unknownAnswer("a description").public(held.name)
	}
}

// described records the number of the last description and, unless it is empty, the label.
func (l *lease) described(number uint64, holder string) {
	l.description = max(l.description, number+1)
	if holder != "" {
		l.holder.Store(&holder)
	}
}

// firstDescription is the number of the first description of the lease. Somebody else who knows the id of the request
// may have described it.
func (a *attempts) firstDescription() uint64 {
	if a.options.requestID != "" {
		return 0
	}
	return 1
}
