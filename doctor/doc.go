// Package doctor says whether this machine can hold a process, and what to
// type if not.
//
//	rows := doctor.Run(ctx, doctor.Host{Root: os.DirFS("/")}, doctor.Checks())
//
// Every row is one [Check] with four outcomes. A fact that couldn't be read,
// or a probe that gave no conclusive answer, is [Unknown], never [OK]. Facts
// are read through the file system in [Host], so each finding has a fixture;
// what only a system call can tell is asked through [Host.Probe].
package doctor
