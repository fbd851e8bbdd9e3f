package delivery

import (
	"crypto/rand"
	"strconv"
	"strings"
)

// nonceLength is the number of base 32 digits that tell this book's tokens from all others: 65 random bits.
const nonceLength = 13

// mint makes tokens and reads them. A token is the nonce, a dash, and the delivery's number in base 36; there is exactly
// one spelling of each.
type mint struct {
	prefix string // nonce and dash
}

func newMint() mint {
	return mint{prefix: strings.ToLower(rand.Text()[:nonceLength]) + "-"}
}

// append appends the token of the delivery with this number.
func (t mint) append(dst []byte, id uint64) []byte {
	dst = append(dst, t.prefix...)
	return strconv.AppendUint(dst, id, 36)
}

// token returns one token as a string.
func (t mint) token(id uint64) string { return string(t.append(nil, id)) }

// parse returns the number in a token of this book. It is false for everything that append has not made.
func (t mint) parse(token string) (uint64, bool) {
	digits, ok := strings.CutPrefix(token, t.prefix)
	// 13 digits of base 36 hold every number that a counter can reach, and 12 never overflow.
	if !ok || digits == "" || len(digits) > 12 || digits[0] == '0' {
		return 0, false
	}
	var id uint64
	for i := range len(digits) {
		switch c := digits[i]; {
		case '0' <= c && c <= '9':
			id = id*36 + uint64(c-'0')
		case 'a' <= c && c <= 'z':
			id = id*36 + uint64(c-'a') + 10
		default:
			return 0, false
		}
	}
	return id, true
}
