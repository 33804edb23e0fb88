package policy_test

import (
	"os"
	"testing"

	"pinfold/policy"
)

// BenchmarkParse: a policy is read on every launch.
func BenchmarkParse(b *testing.B) {
	for _, file := range []string{"full.jsonc", "full.yaml"} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(file, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := policy.Parse(data, "/etc/pinfold/"+file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
