// Package dashboard opens the dashboard of a real agent in a real browser, Chromium without a window, and looks at what a
// person would see there.
//
//	go test ./dashboard                                              needs chromium
//	go test ./dashboard -run Screenshots -screenshots ../../../docs     makes the pictures of the documentation
package dashboard
