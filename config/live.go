package config

import "strings"

// changesLive tells whether a running agent takes over a change of a setting. The agent refuses a file that changes another
// one, and its tests hold this list against what it refuses.
func changesLive(path string) bool {
	switch path {
	case "agent.drain_timeout", "capsules[].concurrency", "capsules[].lease", "capsules[].allow_uids", "capsules[].allow_gids":
		return true
	case "queues", "queues[].name":
		return false
	case "queues[].storage.type": // accepted, and then refused by JetStream
		return false
	}
	return strings.HasPrefix(path, "queues[].")
}
