package api

import "net/http"

// Code names an error for programs.
type Code string

// The error codes of the socket API.
const (
	CodeUnknownQueue     Code = "unknown_queue"
	CodeUnknownCapsule   Code = "unknown_capsule"
	CodeUnknownSession   Code = "unknown_session"
	CodeUnknownToken     Code = "unknown"
	CodeUnknownHandle    Code = "unknown_handle" // of a delayed message
	CodePriority         Code = "priority_out_of_range"
	CodeInvalidKey       Code = "invalid_key"
	CodeInvalidWeight    Code = "invalid_weight"
	CodeInvalidHeader    Code = "invalid_header"
	CodeBadRequest       Code = "bad_request"
	CodeNeedsFairShare   Code = "needs_fair_share" // the queue does not tell its keys apart
	CodeNeedsPause       Code = "needs_pause"      // only a paused queue can be purged
	CodePayloadTooLarge  Code = "payload_too_large"
	CodeQueueFull        Code = "queue_full"
	CodeBroker           Code = "broker_unavailable"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodeNotFound         Code = "not_found"
	CodeMethodNotAllowed Code = "method_not_allowed"
	CodeNotAvailable     Code = "not_available" // a feature that this version does not have
	CodeOverloaded       Code = "overloaded"    // a bound of the agent itself was reached
	CodeForbidden        Code = "forbidden"     // peer credentials are not on the list
	CodeInternal         Code = "internal"
)

// HTTPStatus returns the status that goes with c.
func (c Code) HTTPStatus() int {
	switch c {
	case CodeUnknownQueue, CodeUnknownCapsule, CodeUnknownToken, CodeUnknownHandle, CodeNotFound:
		return http.StatusNotFound
	case CodeUnknownSession, CodeNeedsFairShare, CodeNeedsPause:
		return http.StatusConflict
	case CodePriority, CodeInvalidKey, CodeInvalidWeight, CodeInvalidHeader, CodeBadRequest:
		return http.StatusBadRequest
	case CodePayloadTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeQueueFull:
		return http.StatusTooManyRequests
	case CodeBroker, CodeOverloaded:
		return http.StatusServiceUnavailable
	case CodeOutcomeUnknown:
		return http.StatusGatewayTimeout
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case CodeNotAvailable:
		return http.StatusNotImplemented
	case CodeForbidden:
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

// Error is the error of the socket API. Message says what to do about it.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Reason  string `json:"reason,omitempty"` // queue_full: which limit; broker_unavailable: store_full, or none
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// ErrorBody is the body of every error answer.
type ErrorBody struct {
	Error *Error `json:"error"`
}
