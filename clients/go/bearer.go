package fencepost

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tokenTimeout is how long the function for the token of a session may take. It does not count as time of a server.
const tokenTimeout = 5 * time.Second

// bearer adds a bearer token to each call.
type bearer struct {
	token    func(context.Context) (string, error)
	needsTLS bool
}

// askedFirst is the key of a token in the context of a call for which it was asked before.
type askedFirst struct{}

// authorized asks for the token of a session. The call with the context that it returns does not ask again.
func (s *servers) authorized(ctx context.Context) (context.Context, error) {
	if s.token == nil {
		return ctx, nil
	}
	asking, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, err := s.token(asking)
	if err != nil {
		return nil, noToken(ctx, err)
	}
	return context.WithValue(ctx, askedFirst{}, token), nil
}

// noToken is the error of the call that needs a token. It is final, whatever the function returned: the same call would
// not be better, and the next one asks again.
func noToken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Errorf(codes.Unauthenticated, "no bearer token: %v", err)
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, known := ctx.Value(askedFirst{}).(string)
	if !known {
		var err error
		if token, err = b.token(ctx); err != nil {
			return nil, noToken(ctx, err)
		}
	}
	if token = strings.TrimSpace(token); token == "" {
		return nil, status.Error(codes.Unauthenticated, "the token is empty")
	}
	// The token itself is not shown: errors end up in logs.
	if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, status.Error(codes.Unauthenticated, "the token has a line end or another character that cannot be sent")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is false for servers on this machine without TLS; the configuration allows no others.
func (b bearer) RequireTransportSecurity() bool { return b.needsTLS }
