package plan

import "encoding/json"

// The schema is written by hand, not by reflection: a field that was added
// and not described is what its test looks for.

type object = map[string]any

func text(about string) object  { return object{"type": "string", "description": about} }
func count(about string) object { return object{"type": "integer", "minimum": 0, "description": about} }

func number(about string) object  { return object{"type": "number", "minimum": 0, "description": about} }
func boolean(about string) object { return object{"type": "boolean", "description": about} }
func with(o, more object) object {
	for k, v := range more {
		o[k] = v
	}
	return o
}

func oneOf(about string, values ...string) object {
	return with(text(about), object{"enum": values})
}

// record is an object with these members, of which the named are always there.
func record(about string, members object, required ...string) object {
	o := object{"type": "object", "description": about, "properties": members, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func listOf(about string, item object) object {
	return object{"type": "array", "description": about, "items": item}
}

// ResultSchema is the JSON Schema (draft 2020-12) of a [Result].
func ResultSchema() []byte {
	schema := record("what became of one launch", resultMembers(), "version", "tier", "reason", "exit", "phase", "phases")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "pinfold result"
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("internal error: cannot encode the result schema: " + err.Error())
	}
	return append(out, '\n')
}

func resultMembers() object {
	return object{
		"version": with(count("of this form"), object{"const": ResultVersion}),
		"run":     text("the run's name in events and records"),
		"tier":    oneOf("the boundary", "process", "container"),
		"backend": text("what made it: bwrap, docker, podman …"),
		"reason": oneOf("how it ended",
			"exited", "signaled", "timeout", "oom", "interrupted", "boundary_lost", "refused", "unavailable"),
		"exit":     with(count("what pinfold exits with"), object{"maximum": 255}),
		"signal":   text("the signal that ended the command, such as SIGKILL"),
		"stop":     oneOf("what a stop had to deliver", "term", "kill"),
		"phase":    oneOf("the last phase that began", PhasePlan, PhasePreflight, PhaseSetup, PhaseRun),
		"phases":   listOf("how long each took", phaseSchema()),
		"attempts": count("how often the launch was made, where it failed at first while the host changed, or couldn't be made in the quicker way"),
		"refusal": record("why nothing ran", object{
			"reason":  oneOf("who refused", "sandbox_denied", "sandbox_unavailable", "usage"),
			"code":    text("see docs/troubleshooting.md"),
			"subject": text("the path, host, field or tool it is about"),
			"rule":    text("the rule that decided"),
			"why":     text("cannot do what, and why"),
			"fix":     text("what to do"),
		}, "reason", "code", "why"),
		"not_run": record("why the command didn't run though nothing was refused", object{
			"code": oneOf("what kept it", "not_found", "not_executable", "not_run"),
			"why":  text("cannot run the command, and why"),
		}, "code", "why"),
		"usage":   usageSchema(),
		"limits":  listOf("the limits in force", limitSchema()),
		"network": record("what went through the proxy", object{"bytes_up": count("sent out"), "bytes_down": count("brought in")}, "bytes_up", "bytes_down"),
		"blocked": listOf("denied targets", record("one target", object{
			"target": text("host:port or path"),
			"reason": text("a code, such as not_listed"),
			"count":  count("how often"),
			"allow":  text("the policy entry that would allow it"),
		}, "target", "count")),
		"more_blocked": count("denials of targets past the list's bound"),
		"persistence": listOf("new or changed files in write grants that host tools execute by themselves", record("one file", object{
			"path":   text("on the host"),
			"change": oneOf("what happened to it", "new", "changed"),
			"what":   text("who runs it"),
		}, "path", "change", "what")),
		"persistence_partial": boolean("there was more to search than time, or something couldn't be read"),
		"layers": listOf("what holds the boundary", record("one layer", object{
			"name": text("as in require"), "state": text("on, or off and why"),
		}, "name", "state")),
		"owner":  record("who started it", object{"execution": text("--execution"), "segment": text("--segment")}),
		"record": text("the record's directory"),
		"digest": text("of the plan"),
		"stdout": capturedSchema("standard output, with --capture"),
		"stderr": capturedSchema("standard error, with --capture"),
	}
}

func phaseSchema() object {
	return record("one phase", object{
		"name":        oneOf("which", PhasePlan, PhasePreflight, PhaseSetup, PhaseRun),
		"began":       with(text("when, UTC"), object{"format": "date-time"}),
		"duration_ms": number("how long, in milliseconds"),
	}, "name", "began", "duration_ms")
}

func usageSchema() object {
	return record("what the command and all that it started have used", object{
		"source":            oneOf("who counted: a cgroup the whole tree, rusage each process", "cgroup", "rusage"),
		"cpu_ms":            number("processor time, in milliseconds"),
		"peak_memory_bytes": count("of the tree at once (cgroup), or of the largest process (rusage)"),
		"peak_processes":    count("processes and threads at once"),
	}, "source", "cpu_ms")
}

func limitSchema() object {
	return record("one limit", object{
		"name":  oneOf("as in limits", "cpus", "memory", "pids", "files", "file_size", "tmp", "timeout", "idle_timeout"),
		"value": text("as in the plan"),
		"hits":  count("how often it was hit, where that can be known"),
	}, "name", "value", "hits")
}

func capturedSchema(about string) object {
	return record(about, object{
		"encoding":  oneOf("of data and tail", "utf-8", "base64"),
		"data":      text("all of it, or its beginning"),
		"bytes":     count("written in all"),
		"truncated": boolean("bytes between data and tail were dropped"),
		"omitted":   count("how many"),
		"tail":      text("its end"),
	}, "encoding", "data", "bytes", "truncated")
}
