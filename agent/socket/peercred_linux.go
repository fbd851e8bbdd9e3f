package socket

import (
	"errors"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// allowed reports whether the peer of c is on one of the lists. Credentials are those of the time of connect.
func allowed(c net.Conn, uids, gids []uint32) error {
	if len(uids) == 0 && len(gids) == 0 {
		return nil
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("socket: not a Unix connection")
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if slices.Contains(uids, cred.Uid) || slices.Contains(gids, cred.Gid) {
		return nil
	}
	return &notAllowedError{uid: cred.Uid, gid: cred.Gid}
}
