package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var errOpenVariable = errors.New("`${` without its `}`: close it, or write `$${` for a plain `${`")

// expand replaces ${VAR}, ${VAR:-default} and ${VAR:?message} in a scalar.
// $$ is a plain dollar sign, and a dollar sign before anything else is itself.
// As in a shell, the forms with a colon treat an empty variable as unset. What
// a variable holds is never expanded again.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		switch text[i+1] {
		case '$':
			b.WriteByte('$')
			text = text[i+2:]
		case '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return "", errOpenVariable
			}
			s, err := variableValue(text[i+2:i+end], lookup)
			if err != nil {
				return "", err
			}
			b.WriteString(s)
			text = text[i+end+1:]
		default:
			b.WriteByte('$')
			text = text[i+1:]
		}
	}
}

// variableValue gives what stands for the inside of one ${…}.
func variableValue(inside string, lookup func(string) (string, bool)) (string, error) {
	name, rest, hasForm := strings.Cut(inside, ":")
	if !variable.MatchString(name) {
		return "", fmt.Errorf("%q is not a variable's name: write ${VAR}, or $${ for a plain ${", shorten(inside))
	}
	if strings.Contains(rest, "${") {
		return "", fmt.Errorf("${%s:…} has a variable inside: variables cannot be nested", name)
	}
	val, set := lookup(name)
	switch {
	case !hasForm && set:
		return val, nil
	case !hasForm:
		return "", fmt.Errorf("the variable %s is not set: set it, or write ${%s:-default}", name, name)
	case strings.HasPrefix(rest, "-"):
		if set && val != "" {
			return val, nil
		}
		return strings.ReplaceAll(rest[1:], "$$", "$"), nil
	case strings.HasPrefix(rest, "?"):
		if set && val != "" {
			return val, nil
		}
		if rest == "?" {
			return "", fmt.Errorf("the variable %s is not set or empty: set it", name)
		}
		return "", fmt.Errorf("the variable %s is not set or empty: %s", name, rest[1:])
	}
	return "", fmt.Errorf("${%s} is no form that is known: write ${%s}, ${%s:-default} or ${%s:?message}", shorten(inside), name, name, name)
}
