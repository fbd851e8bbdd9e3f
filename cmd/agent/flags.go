package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/client"
)

// socketFlag is the choice of the app socket: --socket, else FAIRLEAD_SOCKET, else the default path.
type socketFlag struct {
	app     *app
	address string
}

func (a *app) addSocketFlag(command *cobra.Command) *socketFlag {
	f := &socketFlag{app: a}
	command.Flags().StringVar(&f.address, "socket", "",
		"socket of the agent: a path or unix:///path (default: $FAIRLEAD_SOCKET, else "+client.DefaultSocket+")")
	return f
}

// path returns the socket's path. A bad address is a usage error.
func (f *socketFlag) path() (string, error) {
	address := f.address
	if address == "" {
		address, _ = f.app.lookup("FAIRLEAD_SOCKET")
	}
	if address == "" {
		return client.DefaultSocket, nil
	}
	path, err := client.ParseSocket(address)
	if err != nil {
		return "", usageError(err)
	}
	return path, nil
}

// connect returns a client of the socket. The caller closes it.
func (f *socketFlag) connect() (*client.Client, error) {
	path, err := f.path()
	if err != nil {
		return nil, err
	}
	return client.New(path), nil
}

// adminFlag is the choice of the admin socket: --admin-socket, else FAIRLEAD_ADMIN_SOCKET, else admin.sock beside the app
// socket.
type adminFlag struct {
	app     *socketFlag
	address string
}

func (a *app) addAdminFlag(command *cobra.Command) *adminFlag {
	f := &adminFlag{app: a.addSocketFlag(command)}
	command.Flags().StringVar(&f.address, "admin-socket", "",
		"admin socket of the agent (default: $FAIRLEAD_ADMIN_SOCKET, else admin.sock beside the app's)")
	return f
}

func (f *adminFlag) connect() (*client.Client, error) {
	address := f.address
	if address == "" {
		address, _ = f.app.app.lookup("FAIRLEAD_ADMIN_SOCKET")
	}
	if address == "" {
		path, err := f.app.path()
		if err != nil {
			return nil, err
		}
		return client.New(filepath.Join(filepath.Dir(path), "admin.sock")), nil
	}
	path, err := client.ParseSocket(address)
	if err != nil {
		return nil, usageError(err)
	}
	return client.New(path), nil
}

// outputFlag is the choice between a table and JSON.
type outputFlag string

func addOutputFlag(command *cobra.Command) *outputFlag {
	f := new(outputFlag)
	*f = "table"
	command.Flags().VarP(f, "output", "o", "table or json")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// String, Set and Type implement pflag.Value.
func (f *outputFlag) String() string { return string(*f) }
func (f *outputFlag) Type() string   { return "FORMAT" }
func (f *outputFlag) Set(s string) error {
	if s != "table" && s != "json" {
		return errFormat
	}
	*f = outputFlag(s)
	return nil
}

func (f *outputFlag) json() bool { return *f == "json" }
