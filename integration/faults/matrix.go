package main

// row is one line of the fault matrix.
type row struct {
	name     string   // what --only looks for
	fault    string   // for people
	promises string   // the invariants by name; docs/reliability.md says what they are
	kinds    []string // the faults of the event log that have to be there
	target   string   // what the target of at least one of them contains; "" is anything
	tests    []string // of package integration
	pkg      string   // another package with the tests; what is counted are scenarios then
}

// matrix is every fault that Fairlead promises to survive, in the order of the table.
var matrix = []row{
	{"agent-killed", "kill -9 of an agent, at any step", "S1 S3-S6 S10 L1", []string{"kill -9"}, "agent",
		[]string{"TestAgentsAreKilledUnderLoad", "TestAKilledAgentsWorkIsRedelivered", "TestAKilledHolderIsFollowedWithinTheLease", "TestPermitsOfAKilledAgentComeBack", "TestAMessageThatKillsItsAgents"}, ""},
	{"app-killed", "kill -9 of an app with 1000 in flight", "S5 S6", []string{"app crash", "kill -9"}, "",
		[]string{"TestASessionThatEndsGivesEverythingBack", "TestAKilledWorkGivesItsMessagesBack"}, ""},
	{"server-killed", "kill -9 of the server, for less and more than a lease", "S1 S3-S6 S10", []string{"kill -9"}, "nats-server",
		[]string{"TestTheServerIsKilledUnderTwoAgents", "TestTheServerDiesWhileMessagesDie", "TestSourcesSurviveACrashOfTheServer"}, ""},
	{"broker-away", "the broker is away for a minute", "S5 S6 L6, told", []string{"kill -9"}, "nats-server",
		[]string{"TestTheBrokerIsAwayForAMinute", "TestTheBrokerGoesAndComesBack"}, ""},
	{"agent-stopped", "SIGSTOP of an agent past its lease", "S1 S2 S10", []string{"stopped (signal)"}, "agent",
		[]string{"TestAPausedHolderIsFencedOff", "TestAPausedIdleHolderHandsOutNothing"}, ""},
	{"app-stopped", "SIGSTOP of an app", "S6", []string{"stopped (signal)"}, "app",
		[]string{"TestAStoppedAppsWorkMovesOn"}, ""},
	{"app-crash-loop", "an app in a crash loop; a message that kills its app", "L4 S7", []string{"app crash"}, "",
		[]string{"TestAnAppThatCrashesInALoopLosesTheLease", "TestTwoAppsThatCrashAreNotNobody", "TestAMessageThatKillsItsApp"}, ""},
	{"backoff", "the server restarts while messages back off", "S5 S6, attempts", []string{"kill -9"}, "nats-server",
		[]string{"TestBackoffsSurviveTheServer", "TestADelaySurvivesTheServer"}, ""},
	{"busy", "all workers busy for longer than the server keeps a lane", "attempts", []string{"lane forgotten"}, "",
		[]string{"TestAllWorkersAreBusyForLong"}, ""},
	{"network", "cuts one and both ways, slow links, resets; a server that stands still", "S1-S3 S5 S6 S10 L5", []string{"network", "stopped (signal)"}, "",
		[]string{"TestAHolderThatIsCutOff", "TestASlowNetworkThatBreaks", "TestTheServerStandsStill"}, ""},
	{"clock", "the clock of an agent, of the server, jumps by a minute and by hours", "S1-S6 S10 L1 L5 L6", []string{"clock jump"}, "",
		[]string{"TestAgentsClocksJump", "TestTheServersClockJumps"}, ""},
	{"clock-drift", "clocks that jump, and run at different speeds (simulated)", "S1 S3 S4", nil, "",
		[]string{"TestStorm", "TestSpite", "TestTakeoverTimes"}, "./leases"},
	{"cluster", "3 nodes: each killed in turn, and every leader", "S1 S3-S6 S10 L1 L6", []string{"kill -9"}, "nats-server",
		[]string{"TestEachServerOfAClusterIsKilled", "TestAServerOfAClusterIsKilled"}, ""},
	{"cluster-dead", "3 nodes: one stays dead; the holder stops, a queue is purged", "L1 S1 S3-S6 S10", []string{"kill -9", "terminated"}, "nats-server",
		[]string{"TestAStoppedHolderIsFollowedWhileAServerIsDead", "TestAPurgeWhileTheServerOfALaneIsDead"}, ""},
	{"cluster-split", "3 nodes: one is cut off from the others, with each leader", "S1 S3-S6 S10 L1 L6", []string{"partition"}, "nats-server",
		[]string{"TestAServerOfAClusterIsCutOff"}, ""},
	{"deleted", "lanes, bucket and streams deleted underneath", "S1 S4-S6, told", []string{"deleted"}, "",
		[]string{"TestLanesAreDeletedUnderneath", "TestTheBucketIsDeleted", "TestAgentsFindEachOtherInANewBucket", "TestTheStreamIsDeletedUnderneath", "TestTheDeadLetterStreamIsDeletedUnderneath"}, ""},
	{"store-full", "the server's store is full", "S5, told", []string{"store full"}, "",
		[]string{"TestTheStoreIsFull"}, ""},
	{"never-settles", "an app that never settles", "S7 S8", nil, "",
		[]string{"TestAHangingHandlerEndsInTheDeadLetters", "TestACapPerKeyHoldsOverAgentsAndLevels"}, ""},
	{"malformed", "malformed requests, silent connections", "S8", []string{"malformed request", "silent connection"}, "",
		[]string{"TestMalformedRequestsDisturbNobody", "TestAThousandSilentConnections"}, ""},
	{"hostile-keys", "hostile keys", "S9", []string{"hostile key"}, "",
		[]string{"TestHostileKeysComeBackOrAreRefused", "TestHostileKeysInABatch", "TestHostileKeysAreOneTokenOfTheSubject"}, ""},
	{"hostile-weights", "hostile weights", "told", []string{"hostile weight"}, "",
		[]string{"TestHostileWeightsAreRefused", "TestPoisonWeightsAffectTheirOwnMessageOnly"}, ""},
	{"hostile-files", "hostile configuration files", "told, exit 78", []string{"hostile file"}, "",
		[]string{"TestHostileFiles", "TestSevenMistakesAreAllNamedWithTheirPositions"}, ""},
	{"bombs", "compressed payloads that expand without end", "S8", []string{"bomb"}, "",
		[]string{"TestHostileCompressedPayloadsAreNotDelivered"}, ""},
	{"scale", "1,000,000 waiting, 10,000 tenants, 10,000 leases that end at once", "S6 S8 L2", []string{"backlog", "leases end"}, "",
		[]string{"TestAMillionWaiting", "TestADeepBacklogCostsNothingAtTheStart", "TestTenThousandTenants", "TestTenThousandLeasesEndAtOnce"}, ""},
}

// soaks are the rows that only --soak runs: the first one, or those that --only asks for.
var soaks = []row{
	{"soak", "random faults over a mix of queues, on one server", "S1 S3-S6 S8 S10 L6", nil, "", []string{"TestSoak"}, ""},
	{"soak-cluster", "random faults over a mix of queues, on three servers", "S1 S3-S6 S8 S10 L6", nil, "", []string{"TestSoakOfACluster"}, ""},
}
