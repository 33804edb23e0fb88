package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"pinfold/event"
	"pinfold/plan"
	"pinfold/policy"
)

func (p *program) schemaCommand() *cli.Command {
	return &cli.Command{
		Name:      "schema",
		Usage:     "print the JSON Schema of a policy, of a result, or of an event",
		ArgsUsage: "[policy|result|event]",
		Action: func(c *cli.Context) error {
			name := "policy"
			if c.NArg() > 0 {
				var err error
				if name, err = oneArg(c, "[policy|result|event]"); err != nil {
					return err
				}
			}
			text, err := schemaOf(name)
			if err != nil {
				return err
			}
			_, err = p.Out.Write(text)
			return err
		},
	}
}

func schemaOf(name string) ([]byte, error) {
	switch name {
	case "policy":
		return policy.Schema()
	case "event":
		return event.Schema(), nil
	case "result":
		return plan.ResultSchema(), nil
	}
	return nil, &usageError{
		why: fmt.Sprintf("cannot print the schema of %q: there is none of that name", name),
		fix: "the schemas are policy, result and event",
	}
}
