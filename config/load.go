package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// maxFile is how big a file may be, in bytes.
const maxFile = mib

// Load reads a file, with variables from the environment, and fills an absent
// agent.id. It returns the configuration and what is probably not meant. If
// anything is wrong, the configuration is nil and the error is an *Invalid
// with all of it.
//
// Load blocks as long as the file system does.
func Load(path string) (*Config, []Problem, error) {
	data, err := readFile(path)
	if err != nil {
		var named *fs.PathError
		if errors.As(err, &named) {
			err = named.Err
		}
		return nil, nil, &Invalid{
			Problems: []Problem{{File: path, Line: 1, Column: 1, Message: "cannot be read: " + err.Error()}},
			cause:    err,
		}
	}
	c, warnings, err := Parse(path, data, os.LookupEnv)
	if err != nil {
		return nil, warnings, err
	}
	if c.Agent.ID == "" {
		c.Agent.ID = randomID()
	}
	return c, warnings, nil
}

// Parse is Load for text that is already there. It is a pure function of its
// arguments: file only names the text in problems, lookup is asked for the
// variables (nil: there are none), and an absent agent.id stays empty.
func Parse(file string, data []byte, lookup func(string) (string, bool)) (*Config, []Problem, error) {
	d := newDecoder(file, lookup)
	c := new(Config)
	if n := d.document(data); n != nil {
		rootTable.start(c)
		readValue[Config](d, rootTable, n, "", c)
	}
	sortProblems(d.problems)
	sortProblems(d.warnings)
	if len(d.problems) > 0 {
		return nil, d.warnings, &Invalid{Problems: d.problems}
	}
	return c, d.warnings, nil
}

// readFile reads a file of bounded size. Without O_NONBLOCK, opening a named
// pipe that nobody writes to would hang; with it, that pipe is an empty file.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("it is a folder: name the file in it")
	}
	// One byte more than allowed is enough for document to refuse the file.
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// randomID names an agent after its host. The suffix keeps two agents of one
// host apart.
func randomID() string {
	host, err := os.Hostname()
	host = strings.Trim(notInID.ReplaceAllString(host, "-"), "-")
	if err != nil || host == "" {
		host = "agent"
	}
	suffix := make([]byte, 3)
	_, _ = rand.Read(suffix) // never fails
	return fmt.Sprintf("%.64s-%s", host, hex.EncodeToString(suffix))
}
