// Package spelling compares words, so that messages can say which name was probably meant. It is pure.
package spelling

// Distance is the edit distance between a and b (Levenshtein 1965): the least number of bytes to insert, delete or replace that
// makes one of the other. It takes len(a)·len(b) steps: callers bound what they compare.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // distances of the part of a so far to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal, row[j+1] = row[j+1], min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
