package credentials

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/config"
)

// Each file with a secret has to be there, to hold something, and to be nobody else's business.
func TestFilesWithSecrets(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret = "s3cr3t"
	settings := map[string]func(path string) config.NATS{
		"nats.creds":         func(p string) config.NATS { return config.NATS{Creds: p} },
		"nats.nkey":          func(p string) config.NATS { return config.NATS{NKey: p} },
		"nats.password_file": func(p string) config.NATS { return config.NATS{User: "u", PasswordFile: p} },
		"nats.token_file":    func(p string) config.NATS { return config.NATS{TokenFile: p} },
		"nats.tls.key":       func(p string) config.NATS { return config.NATS{TLS: &config.TLS{Cert: p, Key: p}} },
	}
	for setting, with := range settings {
		for path, want := range map[string]string{
			filepath.Join(dir, "none"):             "no such file",
			dir:                                    "no regular file",
			file("empty", "", 0o400):               "is empty",
			file("for-everybody", secret, 0o444):   "mode 0444",
			file("for-everybody-2", secret, 0o604): "chmod 0400",
			file("group-writes", secret, 0o660):    "mode 0660",
		} {
			_, err := Options(with(path))
			if !errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), setting) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		}
	}
	for _, mode := range []os.FileMode{0o400, 0o600, 0o440, 0o640} {
		if err := checkSecret(file("good", secret, mode)); err != nil {
			t.Errorf("%04o: %v", mode, err)
		}
	}
	if got, err := readSecret(file("lines", "\n "+secret+" \n", 0o400)); got != secret || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := readSecret(file("blank", " \n", 0o400)); err == nil {
		t.Error("a file of white space holds a secret")
	}
	if _, err := Options(config.NATS{NKey: file("no-seed", secret, 0o400)}); !errors.Is(err, ErrSecret) || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}
