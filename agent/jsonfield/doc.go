// Package jsonfield finds one scalar in a JSON text without decoding the rest.
//
// [Find] walks along a path of names with dots between, such as tenant.id. It looks at each byte once, up to the end of
// the field, makes nothing of what it passes over, and keeps nothing.
//
//	{"order":17,"lines":[…passed over…],"tenant":{"name":"Acme","id":"acme"}, …never looked at… }
//	                                                           ^^^^^^
//
// # Guarantees
//
//   - In a valid JSON text it finds what a full decoder would, the first one when a name is there twice.
//   - Its work is proportional to what is in front of the field, however deeply that is nested; it uses no memory but for the
//     value it returns.
//
// # Non-guarantees
//
//   - The text is checked only as far as finding the field needs it: a field can be found in a text that is no JSON.
//   - A name with a dot in it, and an element of an array, cannot be reached.
package jsonfield
