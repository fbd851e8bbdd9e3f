// Package pages runs the documentation: it reads the blocks of a Markdown page, types them into a shell as a reader would,
// and compares what is printed with what the page says is printed.
//
// # Blocks
//
// A page is read from top to bottom, in one shell, in one folder, so that a block can use what an earlier one has left.
//
//	```sh       runs. It has to end with exit code 0.
//	```text     after a block that ran: its output. Otherwise it needs a directive.
//	```json     the same, compared as JSON.
//	```yaml     a configuration file, or a part of one: goes through validate.
//	```         a picture. It cannot have lines that look like commands.
//
// # Directives
//
// An HTML comment before a block, which readers do not see, says what is special about it:
//
//	<!-- doc: run
//	commands …
//	-->                              a block that readers do not see: what the page takes for granted
//	<!-- doc: exit 78 -->            the next block ends with this exit code
//	<!-- doc: until TEXT -->         the next block goes on in the background; wait until it has printed TEXT
//	<!-- doc: numbers vary -->       the numbers in the next output are an example
//	<!-- doc: schema NAME -->        the next block is JSON of this schema of docs/openapi.yaml
//	<!-- doc: given NAME -->         the page needs NAME; the test decides what it is
//	<!-- doc: not run: REASON -->    the next block, and its output, are for reading only
//
// # Comparing
//
// … stands for anything, and on a line of its own for any lines. What differs from run to run by its nature (times,
// sequences, tokens, ids) is compared by its type. JSON on a page may show fewer members than there are. After a line
// HTTP/1.1 … headers that the page does not show are ignored.
//
// # Guarantees
//
//   - No block is left out in silence: one that neither runs, nor is compared, nor has a reason is an error, and so is a
//     directive that nothing follows.
//   - What is not run is counted, with its reason.
//
// # Non-guarantees
//
// Some names that pages use cannot exist on a test's machine (/run/fairlead, nats://nats:4222). They are replaced by others
// before a block runs; the test that runs the pages lists them all.
package pages
