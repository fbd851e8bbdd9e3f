package wire

import (
	"strconv"

	"github.com/nats-io/nats.go"
)

// DeletePrefix begins the subjects of requests to delete a message; a stream's name follows.
const DeletePrefix = "$JS.API.STREAM.MSG.DELETE."

// DeleteRequest asks JetStream to delete one message of a stream, without overwriting it on the disk.
func DeleteRequest(stream string, seq uint64) *nats.Msg {
	return &nats.Msg{Subject: DeletePrefix + stream, Data: AppendDelete(make([]byte, 0, 48), seq)}
}

// AppendDelete appends the body of such a request.
func AppendDelete(body []byte, seq uint64) []byte {
	body = append(body, `{"seq":`...)
	body = strconv.AppendUint(body, seq, 10)
	return append(body, `,"no_erase":true}`...)
}
