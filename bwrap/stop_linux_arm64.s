#include "textflag.h"

// The kernel calls it: R0 is the signal. All else is as the runtime's handler
// expects it, which returns to where the kernel wants to be told.
TEXT ·onJobSignal(SB), NOSPLIT|NOFRAME, $0-0
	MOVW	R0, ·lastJobSignal(SB)
	MOVD	·goHandler(SB), R16
	JMP	(R16)

TEXT ·jobHandler(SB), NOSPLIT, $0-8
	MOVD	$·onJobSignal(SB), R0
	MOVD	R0, ret+0(FP)
	RET
