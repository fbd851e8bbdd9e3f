package group

import (
	"fmt"

	"github.com/fairlead/fairlead/config"
)

// Record is the name of the record with a queue's definition in force.
func Record(queue string) string { return definitionKey(queue) }

// Compare says, for somebody who has a file and runs no agent yet, how its definition of a queue and the record of the one
// in force differ, and what comes of that; "" when they say the same.
func Compare(q config.Queue, record []byte) string {
	f := readDefinition(q.Name, record, 0)
	if f.same(stamp{q.Revision, q.Hash()}) {
		return ""
	}
	inForce := fmt.Sprintf("queue %s: another definition is in force, revision %d set by %s", q.Name, f.stamp.Revision, author(f))
	if f.problem != "" {
		return fmt.Sprintf("%s, and this version cannot use it (%s): an agent with this file keeps to the file", inForce, f.problem)
	}
	differ := fmt.Sprintf("%s; the file, revision %d, differs in: %s", inForce, q.Revision, list(differences(q, f.queue)))
	if q.Revision > f.stamp.Revision {
		return differ + ". The file's comes into force as soon as an agent has it"
	}
	return fmt.Sprintf("%s. The file's comes into force when no live agent carries the other one, or with a revision above %d", differ, f.stamp.Revision)
}
