#include "textflag.h"

// The kernel calls it: DI is the signal, SI the siginfo_t. What it changes is
// restored by sigreturn.
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	CMPL	DI, $62	// wire.StopSignal
	JEQ	stop
	MOVL	·signalPipe(SB), DI
write:
	MOVL	$24, DX
	MOVL	$1, AX	// write(2)
	SYSCALL
	RET
stop:
	CMPL	8(SI), $0	// si_code: SI_USER
	JNE	done
	MOVL	·stopPipe(SB), DI
	JMP	write
done:
	RET

TEXT ·signalReturn(SB), NOSPLIT|NOFRAME, $0-0
	MOVL	$15, AX	// rt_sigreturn(2)
	SYSCALL
	INT	$3	// never reached

TEXT ·handlerAddress(SB), NOSPLIT, $0-8
	LEAQ	·onSignal(SB), AX
	MOVQ	AX, ret+0(FP)
	RET

TEXT ·returnAddress(SB), NOSPLIT, $0-8
	LEAQ	·signalReturn(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
