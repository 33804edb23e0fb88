package policy

import "strings"

// didYouMean is a hint that names the word nearest to a misspelt one, ""
// where none is near.
func didYouMean(word string, words []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, candidate := range words {
		if n := distance(strings.ToLower(word), strings.ToLower(candidate)); n < least {
			best, least = candidate, n
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean \"" + best + "\"?"
}

// distance counts the letters to insert, drop, change or swap. Long words
// are no typing slips.
func distance(a, b string) int {
	const most = 40
	if len(a) > most || len(b) > most {
		return most
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
