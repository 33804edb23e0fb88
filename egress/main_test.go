package egress_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"pinfold/egress"
)

// TestMain is also `pinfold connect`: ssh runs the test's own executable as
// its ProxyCommand.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "connect" {
		err := egress.Connect(context.Background(), os.Getenv(egress.ProxyVariable), os.Args[2], os.Args[3], os.Stdin, os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, "pinfold:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
