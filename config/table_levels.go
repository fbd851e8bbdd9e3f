package config

import (
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

var (
	levelName = text{what: "a level's name", pattern: namePattern, rule: "write 1 to 48 of A-Z a-z 0-9 _ -", verify: notANumber}
	levelList = list[string]{item: levelName, low: 1, high: maxLevels, ofWhat: "level names"}
	levelNum  = integer[int]{1, maxLevels}
)

// A name of digits could not be told from a level's number.
var digitsForm = regexp.MustCompile(`^[0-9]+$`)

func notANumber(s string) string {
	if digitsForm.MatchString(s) {
		return "a level's name cannot be a number: add a letter"
	}
	return ""
}

// levelsField is priority_levels: a number, or the levels' names.
func levelsField() field[Queue] {
	return field[Queue]{
		name:  "priority_levels",
		doc:   "Number of priority levels, or a list of their names, the highest first. Level 0 is the highest.",
		start: func(q *Queue) { q.Levels = 1 },
		read: func(d *decoder, n *yaml.Node, at string, q *Queue) {
			readValue[Queue](d, levelsShape{}, n, at, q)
		},
		appendJSON: func(b []byte, q *Queue) []byte { return levelsShape{}.appendJSON(b, *q) },
		schema:     levelsShape{}.schema,
		keys:       func() []string { return nil },
		words:      levelsShape{}.words,
		inner:      func(string) []Setting { return nil },
	}
}

// levelsShape reads the two fields of a queue that priority_levels stands for.
type levelsShape struct{}

func (levelsShape) read(d *decoder, v value, at string, q *Queue) {
	switch {
	case v.kind == yaml.SequenceNode:
		var names []string
		levelList.read(d, v, at, &names)
		for i, name := range names {
			for _, earlier := range names[:i] {
				if name == earlier && d.sound(index(at, i)) {
					d.report(index(at, i), "%s is there twice: names of levels must differ", name)
				}
			}
		}
		if len(names) > 0 {
			q.Levels, q.LevelNames = len(names), names
		}
	case v.class() == classInt:
		levelNum.read(d, v, at, &q.Levels)
	default:
		d.mistyped(v, at, "a number of levels, or a list of their names")
	}
}

func (levelsShape) appendJSON(b []byte, q Queue) []byte {
	if len(q.LevelNames) > 0 {
		return levelList.appendJSON(b, q.LevelNames)
	}
	return levelNum.appendJSON(b, q.Levels)
}

func (levelsShape) schema() object {
	names := levelList.schema()
	names["type"], names["uniqueItems"] = "array", true
	return object{"default": 1, "anyOf": []object{levelNum.schema(), names}}
}

func (levelsShape) words() (string, string) {
	_, bounds := levelNum.words()
	_, name := levelName.words()
	return "whole number, or list of names", bounds + ", each name " + name
}

// levelRef is one level, by number or by name. A name is kept until the
// queue's levels are known, and resolved by resolveLevel.
type levelRef struct{}

func (levelRef) read(d *decoder, v value, at string, into *int) {
	switch {
	case v.class() == classInt:
		integer[int]{0, maxLevels - 1}.read(d, v, at, into)
	case v.kind == yaml.ScalarNode && v.class() == classText:
		d.levels[at] = v.text
	default:
		d.mistyped(v, at, "a level's number or name")
	}
}

func (levelRef) appendJSON(b []byte, v int) []byte { return levelNum.appendJSON(b, v) }

func (levelRef) schema() object {
	return object{"anyOf": []object{integer[int]{0, maxLevels - 1}.schema(), levelName.schema()}}
}

func (levelRef) words() (string, string) { return "level's number or name", "one that the queue has" }

// resolveLevel turns a level that was read at a path into its number, and
// checks that the queue has it.
func resolveLevel(d *decoder, q *Queue, at, levelsAt string, level *int) {
	if !d.isSet(at) || !d.sound(at, levelsAt) {
		return
	}
	name, named := d.levels[at]
	if named {
		n, ok := q.LevelByName(name)
		if !ok {
			d.report(at, "the queue has no level %q: write %s", shorten(name), q.levelChoices())
			return
		}
		*level = n
	}
	if *level >= q.Levels {
		d.report(at, "is %d, and the queue has no such level: write %s", *level, q.levelChoices())
	}
}

// levelChoices says which levels there are, for messages.
func (q Queue) levelChoices() string {
	switch {
	case len(q.LevelNames) > 0 && len(q.LevelNames) <= 10:
		return "one of " + strings.Join(q.LevelNames, ", ")
	case q.Levels == 1:
		return "0, or give it more priority_levels"
	}
	return "0 to " + strconv.Itoa(q.Levels-1)
}
