package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/config"
)

// ErrSecret says that a file with a secret cannot be used: it is not there, it is empty, or others than its owner and group
// can get at it. No connection was made.
var ErrSecret = errors.New("broker: a file with a secret cannot be used")

// strangers are the mode bits that no file with a secret may have. Groups may read: that is how Kubernetes gives a pod that
// does not run as root its secrets.
const strangers fs.FileMode = 0o027

// Options are how an agent with these settings signs in; none when they say nothing of it. The files are looked at, and those with a
// password or a token are read. Errors wrap [ErrSecret] and name the setting; no error holds a secret.
func Options(cfg config.NATS) ([]nats.Option, error) {
	var opts []nats.Option
	for _, s := range []struct{ setting, path string }{
		{"nats.creds", cfg.Creds}, {"nats.nkey", cfg.NKey}, {"nats.password_file", cfg.PasswordFile}, {"nats.token_file", cfg.TokenFile}, {"nats.tls.key", keyOf(cfg.TLS)},
	} {
		if err := checkSecret(s.path); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrSecret, s.setting, err)
		}
	}
	if cfg.Creds != "" {
		opts = append(opts, nats.UserCredentials(cfg.Creds))
	}
	if cfg.NKey != "" {
		opt, err := nats.NkeyOptionFromSeed(cfg.NKey)
		if err != nil {
			return nil, fmt.Errorf("%w: nats.nkey: %s holds no seed of a user", ErrSecret, cfg.NKey)
		}
		opts = append(opts, opt)
	}
	if cfg.User != "" {
		password, err := readSecret(cfg.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("%w: nats.password_file: %w", ErrSecret, err)
		}
		opts = append(opts, nats.UserInfo(cfg.User, password))
	}
	if cfg.TokenFile != "" {
		token, err := readSecret(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("%w: nats.token_file: %w", ErrSecret, err)
		}
		opts = append(opts, nats.Token(token))
	}
	if t := cfg.TLS; t != nil {
		if t.CA != "" {
			opts = append(opts, nats.RootCAs(t.CA))
		}
		if t.Cert != "" {
			opts = append(opts, nats.ClientCert(t.Cert, t.Key))
		}
		opts = append(opts, nats.Secure())
	}
	return opts, nil
}

func keyOf(t *config.TLS) string {
	if t == nil {
		return ""
	}
	return t.Key
}

// checkSecret says why a file is not one to keep a secret in; "" is no file.
func checkSecret(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case info.Size() == 0:
		return fmt.Errorf("%s is empty", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&strangers != 0:
		return fmt.Errorf("%s has mode %04o, so that others can get at it: chmod 0400 (in a pod: defaultMode 0400 on the secret's volume, or 0440 with fsGroup)", path, info.Mode().Perm())
	}
	return nil
}

// readSecret reads a secret; white space around it is not part of it.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
