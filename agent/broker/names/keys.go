package names

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxEncodedKey is the longest key, in bytes after encoding.
const MaxEncodedKey = 128

// Unkeyed stands for the key "" in a subject.
const Unkeyed = "_"

// ErrInvalidKey says that a key cannot be used: it is not valid UTF-8, or too long once encoded. Nothing was sent.
var ErrInvalidKey = errors.New("broker: invalid key")

const upperHex = "0123456789ABCDEF"

// EncodeKey returns the subject token for a tenant key: A-Z a-z 0-9 - _ stand for themselves, every other byte becomes
// =XX in upper-case hex. The key "" is "_" and the key "_" is "=5F", so that the mapping is injective and the token is
// never empty. Errors wrap [ErrInvalidKey].
func EncodeKey(key string) (string, error) {
	switch key {
	case "":
		return Unkeyed, nil
	case Unkeyed:
		return "=5F", nil
	}
	if !utf8.ValidString(key) {
		return "", fmt.Errorf("%w: not valid UTF-8", ErrInvalidKey)
	}
	size := 0
	for i := 0; i < len(key); i++ {
		if plainKeyByte(key[i]) {
			size++
		} else {
			size += 3
		}
	}
	if size > MaxEncodedKey {
		return "", fmt.Errorf("%w: %d bytes once encoded, at most %d fit; shorten it or use a hash of it", ErrInvalidKey, size, MaxEncodedKey)
	}
	if size == len(key) {
		return key, nil
	}
	out := make([]byte, 0, size)
	for i := 0; i < len(key); i++ {
		if c := key[i]; plainKeyByte(c) {
			out = append(out, c)
		} else {
			out = append(out, '=', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(out), nil
}

// DecodeKey is the inverse of [EncodeKey]. It refuses every token that EncodeKey does not produce, so that two tokens
// never mean the same key.
func DecodeKey(token string) (string, bool) {
	if token == Unkeyed {
		return "", true
	}
	if token == "" || len(token) > MaxEncodedKey {
		return "", false
	}
	escaped := false
	for i := 0; i < len(token); i++ {
		if token[i] == '=' {
			escaped = true
		} else if !plainKeyByte(token[i]) {
			return "", false
		}
	}
	if !escaped {
		return token, true
	}
	return decodeEscapes(token)
}

func decodeEscapes(token string) (string, bool) {
	out := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		if token[i] != '=' {
			out = append(out, token[i])
			continue
		}
		if i+2 >= len(token) {
			return "", false
		}
		hi, lo := hexValue(token[i+1]), hexValue(token[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		c := byte(hi<<4 | lo)
		// "_" escapes itself only when it is the whole key.
		if plainKeyByte(c) && token != "=5F" {
			return "", false
		}
		out = append(out, c)
		i += 2
	}
	if !utf8.Valid(out) {
		return "", false
	}
	return string(out), true
}

func plainKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
