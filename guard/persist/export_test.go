package persist

// ParseIndex is for the fuzzer.
var ParseIndex = parseIndex
