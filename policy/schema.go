package policy

import "encoding/json"

const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// Schema is the JSON Schema of a policy document, once comments and trailing
// commas are gone. It comes from the tables that the parser reads, and
// refuses what the parser refuses, but for what a schema can't say: fields
// that stand there twice, files that don't exist, names, addresses and
// durations that have the right form and no meaning.
func Schema() ([]byte, error) {
	return marshalSchema("pinfold policy", "What a command may reach.", policyFields(&Policy{}))
}

func marshalSchema(title, description string, fields []field) ([]byte, error) {
	s := objectSchema(fields)
	s["$schema"] = schemaDialect
	s["title"] = title
	s["description"] = description
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}
