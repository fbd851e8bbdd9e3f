// Package clienttest is an agent in memory, for tests of programs that use package client: the socket API on a real Unix
// socket, without JetStream. It is to the client what net/http/httptest is to an HTTP client.
//
// # Guarantees
//
//   - Bodies, headers and status codes are those of the real socket API.
//   - Levels are strict, and inside a level the key with the smallest served/weight goes next; ties go to the smaller key.
//
// # Non-guarantees
//
//   - Leases do not expire, attempts have no end, nothing outlives the Agent.
package clienttest
