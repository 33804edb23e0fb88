package policy

import (
	"cmp"
	"fmt"
)

// Config is the operator's own settings for a machine or an account, apart
// from any policy: $XDG_CONFIG_HOME/pinfold/config.json, and beneath it
// /etc/pinfold/config.json. The zero value changes nothing.
type Config struct {
	// Defaults are the limits of a policy that gives none.
	Defaults Limits
	// Ceilings are limits that no policy may exceed, and that hold where a
	// policy and Defaults give none.
	Ceilings Limits
	// Engine is the container engine where a policy names none.
	Engine string
	// State is the state directory; "" for the usual one.
	State *PathRule
	// File is what these were read from, "" for no single one.
	File string
}

// ParseConfig reads a settings file, as strictly as [Parse] reads a policy.
// An error is [ParseErrors].
func ParseConfig(data []byte, file string) (Config, error) {
	c := Config{File: file}
	if err := parseObject(data, file, configFields(&c)); err != nil {
		return Config{}, err
	}
	return c, nil
}

// ConfigSchema is the JSON Schema of a settings file.
func ConfigSchema() ([]byte, error) {
	return marshalSchema("pinfold config", "The operator's own settings.", configFields(&Config{}))
}

func configFields(c *Config) []field {
	return []field{
		{name: "defaults", doc: "Limits of a policy that gives none.", shape: object(limitFields(&c.Defaults), nil)},
		{name: "ceilings", doc: "Limits that no policy may exceed, and that hold where none are given.", shape: object(limitFields(&c.Ceilings), nil)},
		{name: "engine", doc: "The container engine where a policy names none: docker, podman, runc or crun.", shape: enum(&c.Engine, "docker", "podman", "runc", "crun")},
		{name: "state", doc: "The state directory: absolute, or beneath \"~/\".", shape: statePath(&c.State)},
	}
}

func statePath(dst **PathRule) shape {
	return text(statePattern, func(_ *decoder, n *node, at string) error {
		head, _, err := splitPath(n.text)
		if err == nil && head != "/" && head != "~" || saysRelative(err) {
			err = &textError{"it is neither absolute nor in the home", "write the whole path, or start with ~/"}
		}
		*dst = &PathRule{Text: n.text, Source: at, At: n.at}
		return err
	})
}

// Over is c laid over the settings beneath it: what c gives holds, except
// that a ceiling can only get lower.
func (c Config) Over(beneath Config) Config {
	c.File = ""
	c.Defaults = eachLimit(c.Defaults, beneath.Defaults, firstGiven)
	c.Ceilings = eachLimit(c.Ceilings, beneath.Ceilings, lowestGiven)
	if c.Engine == "" {
		c.Engine = beneath.Engine
	}
	if c.State == nil {
		c.State = beneath.State
	}
	return c
}

// Apply is the limits of one launch: the policy's, else the defaults, else
// the ceilings. A limit of the policy above its ceiling is refused; a default
// above one is lowered to it.
func (c Config) Apply(policy Limits) (Limits, error) {
	if name, most := exceeded(policy, c.Ceilings); name != "" {
		return Limits{}, &Refusal{
			Reason: Denied, Code: "limit_above_ceiling", Subject: "limits." + name,
			Why: fmt.Sprintf("cannot grant limits.%s: the settings of this machine allow %s at most", name, most),
			Fix: "lower it in the policy, or raise ceilings." + name + " in " + cmp.Or(c.File, "config.json"),
		}
	}
	defaults := eachLimit(c.Defaults, c.Ceilings, lowestGiven)
	return eachLimit(policy, defaults, firstGiven), nil
}
