package integration

import (
	"time"

	"github.com/fairlead/fairlead/internal/running"
)

var processTime = running.Start() // until the tests have ended

// ran is a clock that stands still when this process does, and so the machine. What an agent or a server is late by alone counts in
// full.
func ran() time.Duration { return processTime.Now() }
