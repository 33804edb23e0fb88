#include "textflag.h"

// func vforkSteps(list *single, n uintptr) (pid, errno uintptr)
//
// The child makes its calls without any use of the stack, and so leaves the
// parent's as it is. System calls keep all registers but AX, CX and R11.
TEXT ·vforkSteps(SB), NOSPLIT, $0-32
	MOVQ list+0(FP), BX
	MOVQ n+8(FP), R13
	MOVQ $0x4111, DI // CLONE_VM, CLONE_VFORK, SIGCHLD
	XORQ SI, SI
	XORQ DX, DX
	XORQ R10, R10
	XORQ R8, R8
	MOVQ $56, AX // clone
	SYSCALL
	TESTQ AX, AX
	JZ loop
	CMPQ AX, $0xfffffffffffff001
	JCC failed
	MOVQ AX, pid+16(FP)
	MOVQ $0, errno+24(FP)
	RET
failed:
	NEGQ AX
	MOVQ $0, pid+16(FP)
	MOVQ AX, errno+24(FP)
	RET

loop:
	TESTQ R13, R13
	JZ done
	MOVQ 0(BX), AX
	MOVQ 8(BX), DI
	MOVQ 56(BX), R12
	TESTQ R12, R12
	JZ call
	MOVQ (R12), DI
call:
	MOVQ 16(BX), SI
	MOVQ 24(BX), DX
	MOVQ 32(BX), R10
	MOVQ 40(BX), R8
	MOVQ 48(BX), R9
	SYSCALL
	MOVQ AX, 64(BX)
	ADDQ $72, BX
	DECQ R13
	CMPQ AX, $0xfffffffffffff001
	JCS loop
	NEGQ AX
	MOVQ AX, DI
	JMP exit

done:
	XORQ DI, DI
exit:
	MOVQ $231, AX // exit_group
	SYSCALL
	JMP exit
