// Package check holds no code: the packages below it check what is in deploy/ with the real parsers of those who will read
// it. They need heavy modules that the product does not, and so are a module of their own:
//
//	cd deploy/check && go test ./...
package check
