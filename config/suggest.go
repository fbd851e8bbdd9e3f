package config

import (
	"strings"

	"github.com/fairlead/fairlead/internal/spelling"
)

// suggest names the key that was probably meant, as the end of a message, or
// nothing. known holds the keys of the mapping first and then the dotted ones
// of the mappings inside it, where a key often belongs.
func suggest(key string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		name := k[strings.LastIndexByte(k, '.')+1:]
		limit := min(2, (len(name)-1)/3) // one letter of two is no misspelling
		// A key that is right but in the wrong place beats a similar one.
		if distance := spelling.Distance(fold(key), fold(name)); distance <= limit && distance < bestDistance {
			best, bestDistance = k, distance
		}
	}
	if best == "" && len(key) >= 4 {
		for _, k := range known {
			if !strings.Contains(k, ".") && (strings.Contains(k, fold(key)) || len(k) >= 3 && strings.Contains(fold(key), k)) {
				best = k
				break
			}
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean " + best + "?"
}

// fold brings maxMessages, max-messages and MAX_MESSAGES near max_messages.
func fold(key string) string {
	if len(key) > 64 {
		key = key[:64]
	}
	return strings.ToLower(strings.ReplaceAll(key, "-", "_"))
}
