// Package api holds the words of Fairlead's socket API: the JSON bodies, header names, error codes and settlement
// statuses that the agent writes and its clients read. The server (agent/socket) and the client (agent/client) both
// import it, so that neither can drift from the other. It has no behaviour beyond encoding.
package api
