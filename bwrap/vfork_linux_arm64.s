#include "textflag.h"

// func vforkSteps(list *single, n uintptr) (pid, errno uintptr)
//
// The child makes its calls without any use of the stack, and so leaves the
// parent's as it is. System calls keep all registers but R0.
TEXT ·vforkSteps(SB), NOSPLIT, $0-32
	MOVD list+0(FP), R19
	MOVD n+8(FP), R20
	MOVD $0x4111, R0 // CLONE_VM, CLONE_VFORK, SIGCHLD
	MOVD ZR, R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $220, R8 // clone
	SVC
	CBZ R0, loop
	CMN $4095, R0
	BCS failed
	MOVD R0, pid+16(FP)
	MOVD ZR, errno+24(FP)
	RET
failed:
	NEG R0, R0
	MOVD ZR, pid+16(FP)
	MOVD R0, errno+24(FP)
	RET

loop:
	CBZ R20, done
	MOVD 0(R19), R8
	MOVD 8(R19), R0
	MOVD 56(R19), R21
	CBZ R21, call
	MOVD (R21), R0
call:
	MOVD 16(R19), R1
	MOVD 24(R19), R2
	MOVD 32(R19), R3
	MOVD 40(R19), R4
	MOVD 48(R19), R5
	SVC
	MOVD R0, 64(R19)
	ADD $72, R19
	SUB $1, R20
	CMN $4095, R0
	BCC loop
	NEG R0, R0
	B exit

done:
	MOVD ZR, R0
exit:
	MOVD $94, R8 // exit_group
	SVC
	B exit
