#include "textflag.h"

// The kernel calls it: R0 is the signal, R1 the siginfo_t. What it changes is
// restored by sigreturn.
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	CMPW	$62, R0	// wire.StopSignal
	BEQ	stop
	MOVW	·signalPipe(SB), R0
write:
	MOVD	$24, R2
	MOVD	$64, R8	// write(2)
	SVC
	RET
stop:
	MOVW	8(R1), R3	// si_code: SI_USER is 0
	CBNZW	R3, done
	MOVW	·stopPipe(SB), R0
	B	write
done:
	RET

TEXT ·signalReturn(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	$139, R8	// rt_sigreturn(2)
	SVC
	BRK	// never reached

TEXT ·handlerAddress(SB), NOSPLIT, $0-8
	MOVD	$·onSignal(SB), R0
	MOVD	R0, ret+0(FP)
	RET

TEXT ·returnAddress(SB), NOSPLIT, $0-8
	MOVD	$·signalReturn(SB), R0
	MOVD	R0, ret+0(FP)
	RET
