package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(newApp().run(context.Background(), os.Args[1:]))
}
