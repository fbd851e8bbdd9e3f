// Command generate writes a day of orders to its standard output: 10,000 jobs of 12 tenants as the NDJSON that a batch
// publish takes, a job a line, in the order in which the day brought them. It writes the same bytes every time.
//
//	go run ./examples/orders/generate > examples/orders/orders.ndjson
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	if err := write(out, day()); err != nil {
		log.Fatal("generate: ", err)
	}
	if err := out.Flush(); err != nil {
		log.Fatal("generate: ", err)
	}
}

// write prints orders in the form of a batch publish. Names and numbers need no escaping.
func write(w io.Writer, orders []order) error {
	for _, o := range orders {
		_, err := fmt.Fprintf(w, `{"data":{"order":%q,"at":"%02d:%02d:%02d","items":%d,"cents":%d},"priority":%q,"key":%q,"id":%q}`+"\n",
			o.id, o.second/3600, o.second/60%60, o.second%60, o.items, o.cents, o.level, o.tenant, o.id)
		if err != nil {
			return err
		}
	}
	return nil
}
