package fencepost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// credentialsBytesMax is the maximum size of a file with a bearer token.
const credentialsBytesMax = 64 << 10

// credentials returns the function for the bearer token, and the name of the setting that it comes from; nil without
// one.
func (c Config) credentials() (token func(context.Context) (string, error), setting string, err error) {
	switch file := os.Getenv(facts.EnvironmentCredentials); {
	case c.Token != nil && c.CredentialsFile != "":
		return nil, "", errors.New("fencepost: Token and CredentialsFile must not be given together")
	case c.Token != nil:
		return c.Token, "Token", nil
	case c.CredentialsFile != "":
		return tokenOf(c.CredentialsFile), "CredentialsFile", nil
	case file != "":
		return tokenOf(file), facts.EnvironmentCredentials, nil
	default:
		return nil, "", nil
	}
}

// tokenOf reads the token from a file, each time: others may replace it.
func tokenOf(name string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }() // it has been read
		text, err := io.ReadAll(io.LimitReader(file, credentialsBytesMax+1))
		if err == nil && len(text) > credentialsBytesMax {
			err = fmt.Errorf("%s has more than %d bytes", name, credentialsBytesMax)
		}
		return string(text), err
	}
}
