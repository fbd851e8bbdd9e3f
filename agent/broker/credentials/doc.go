// Package credentials is how an agent signs in to NATS: with a file of credentials, an nkey, a password, a token or a certificate.
//
// # Guarantees
//
//   - A file with a secret is used only when others than its owner and group have no access to it, and its group cannot change it.
//   - No error, and nothing that is logged here, holds a secret.
//
// # Non-guarantees
//
//   - That the server takes them. Passwords and tokens are read once; files of credentials are read again by nats.go at each
//     connect, so that they can be renewed underneath.
package credentials
