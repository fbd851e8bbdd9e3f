package main

// errBrokerTest is what an agent says when it has no broker.
var errBrokerTest = errBroker
