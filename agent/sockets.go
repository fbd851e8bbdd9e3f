package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/socket"
	"github.com/fairlead/fairlead/config"
)

// listen takes the socket files and the addresses of probes and dashboard, so that a second agent with the same file is refused before it does anything else.
// On the sockets nothing is answered before serve.
func (a *Agent) listen() (err error) {
	l := a.cfg.Listen
	if a.appListener, err = socket.Listen(l.Socket, l.Mode); err != nil {
		return fmt.Errorf("agent: app socket: %w", err)
	}
	if a.adminListener, err = socket.Listen(l.AdminSocket, 0o600); err != nil {
		return fmt.Errorf("agent: admin socket: %w", err)
	}
	if err := a.listenProbes(); err != nil {
		return err
	}
	return a.listenDashboard()
}

// serve begins to answer on both sockets.
func (a *Agent) serve() (err error) {
	e, l := engine{a}, a.cfg.Listen
	a.app, err = socket.New(a.appListener, socket.Options{
		Face: socket.App, Publisher: e, Capsules: e, Book: a.book, Reader: e, Lease: a.lease, Draining: a.drainBegan,
		Allow:      socket.AllowList{UIDs: l.AllowUIDs, GIDs: l.AllowGIDs, Setting: "listen.allow_uids or listen.allow_gids"},
		Publishers: socket.AllowList{UIDs: l.PublishUIDs, GIDs: l.PublishGIDs, Setting: "listen.publish_uids or listen.publish_gids"},
		Pullers:    a.pullers, Lookers: a.lookers, Logger: a.log.Named("socket"),
	})
	if err != nil {
		return err
	}
	a.admin, err = socket.New(a.adminListener, socket.Options{
		Face: socket.Admin, Publisher: e, Book: a.book, Reader: e, Control: e, Controls: e, Delays: e, DeadLetters: e, Draining: a.drainBegan, Logger: a.log.Named("admin"),
	})
	if err != nil {
		return err
	}
	a.app.Start()
	a.admin.Start()
	close(a.serving)
	if a.probes != nil {
		a.numbers.Start(numbers{a})
	}
	a.serveDashboard()
	a.log.Info("ready", "agent", a.cfg.Agent.ID, "version", a.o.Version, "socket", a.cfg.Listen.Socket)
	return nil
}

// lease is the default lease of a capsule's deliveries.
func (a *Agent) lease(capsule string) (time.Duration, bool) {
	for _, c := range a.settings().Capsules {
		if c.Name == capsule {
			return c.Lease, true
		}
	}
	return 0, false
}

// pullers are those who may pull from a capsule. A reload changes them.
func (a *Agent) pullers(capsule string) socket.AllowList {
	for _, c := range a.settings().Capsules {
		if c.Name == capsule {
			return allowListOf(c)
		}
	}
	return socket.AllowList{} // there is no such capsule, which is what they are told
}

// lookers are those who may pull a queue's messages from some capsule: whoever may not is not to see them either.
func (a *Agent) lookers(queue string) (lists []socket.AllowList) {
	for _, c := range a.settings().Capsules {
		if slices.Contains(c.Queues, queue) {
			lists = append(lists, allowListOf(c))
		}
	}
	return lists
}

func allowListOf(c config.Capsule) socket.AllowList {
	return socket.AllowList{UIDs: c.AllowUIDs, GIDs: c.AllowGIDs, Setting: "allow_uids or allow_gids of capsule " + c.Name}
}

// closeSockets stops both servers and removes the files.
func (a *Agent) closeSockets(ctx context.Context) (errs []error) {
	for _, s := range []*socket.Server{a.app, a.admin} {
		if s != nil {
			if err := s.Stop(ctx); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for _, l := range []*socket.Listener{a.appListener, a.adminListener} {
		if l != nil {
			if err := l.Close(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}
