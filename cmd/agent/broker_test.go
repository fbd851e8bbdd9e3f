package main

import "github.com/fairlead/fairlead/agent"

// errBrokerTest is what an agent says when it has no broker.
var errBrokerTest = agent.ErrBroker
