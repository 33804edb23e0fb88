#include "textflag.h"

// The kernel calls it: DI is the signal. All else is as the runtime's handler
// expects it, which returns to where the kernel wants to be told.
TEXT ·onJobSignal(SB), NOSPLIT|NOFRAME, $0-0
	MOVL	DI, ·lastJobSignal(SB)
	MOVQ	·goHandler(SB), AX
	JMP	AX

TEXT ·jobHandler(SB), NOSPLIT, $0-8
	LEAQ	·onJobSignal(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
