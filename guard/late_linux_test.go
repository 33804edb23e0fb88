package guard

import "testing"

// TestLateMountShowsWhatIsDenied: a mount that came after the guard's look is
// known by its file system, and that is a device and a type: numbers of
// devices are given out again.
func TestLateMountShowsWhatIsDenied(t *testing.T) {
	t.Parallel()
	have := table(t, "1 1 8:1 / /", "2 1 0:50 / /d/merged overlay lowerdir=/l", "3 1 0:51 / /d/tmp tmpfs")
	for name, c := range map[string]struct {
		late string
		want bool
	}{
		"a bind of it":                          {"9 1 8:1 /d /mnt", true},
		"a bind of its parent":                  {"9 1 8:1 / /mnt", true},
		"a bind of something in it":             {"9 1 8:1 /d/x /mnt", true},
		"a bind of another directory":           {"9 1 8:1 /e /mnt", false},
		"what is mounted in it":                 {"9 1 0:51 / /mnt tmpfs", true},
		"its overlay":                           {"9 1 0:50 / /mnt overlay lowerdir=/l", true},
		"an overlay over it":                    {"9 1 0:60 / /mnt overlay lowerdir=/d/x", true},
		"a tmpfs that has an overlay's number":  {"9 1 0:50 / /mnt tmpfs", false},
		"a tmpfs of its own":                    {"9 1 0:60 / /mnt tmpfs", false},
		"another type with the number of it":    {"9 1 8:1 /d /mnt tmpfs", false},
		"an overlay that has a tmpfs's number":  {"9 1 0:51 / /mnt overlay lowerdir=/e", false},
		"an overlay of that number, that shows": {"9 1 0:51 / /mnt overlay lowerdir=/d", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := have.betrayed("/d", table(t, c.late).all[0]); got != c.want {
				t.Errorf("betrayed: %v, wanted %v", got, c.want)
			}
		})
	}
}
