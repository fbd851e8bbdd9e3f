package group

import "errors"

var (
	// ErrUndecided says that Start's context ended before the definitions in force were known. The group works: until it
	// knows more it holds to its own file's definitions, and it goes on deciding.
	ErrUndecided = errors.New("group: the definitions in force are not known yet")
	// ErrDuplicateAgent says that another agent was there first under this agent's id, and is alive. This group has stopped
	// writing; what the other one wrote stands.
	ErrDuplicateAgent = errors.New("group: another live agent has the same id")
	// ErrStopped says that the group was stopped before.
	ErrStopped = errors.New("group: stopped")
	// ErrHeartbeatsLeft says that Stop could not delete this agent's heartbeats. The others find out after their stale_after.
	ErrHeartbeatsLeft = errors.New("group: heartbeats were not deleted")
)
