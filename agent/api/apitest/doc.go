// Package apitest reads docs/openapi.yaml for tests, which hold it against the handlers, the types of the answers and the
// answers of real agents.
//
// # Guarantees
//
//   - [Document.Check] accepts an answer only when its operation, its status and its content type are in the file, and
//     the body follows the schema. Members that the schema of a good answer does not have are refused too, although clients
//     are asked to ignore them: the file is to be complete.
//   - A reference that leads nowhere is an error when the file is opened.
//
// # Non-guarantees
//
// It is no validator of OpenAPI files: it reads the parts that this project's file uses.
package apitest
