package bwrap

// vforkCall is vfork(2)'s number, as /proc/PID/syscall shows it.
const vforkCall = "58"
