//go:build !pjrtplain

#include "textflag.h"

GLOBL ·walkABI0(SB), NOPTR|RODATA, $8
DATA ·walkABI0(SB)/8, $walkC(SB)

// walkC(DI *list) has the System V calling convention: runtime.cgocall calls it
// on the system stack. BX is the list, R12 the entry, R13 the number left; those
// and BP are the caller's. R14 is saved to keep SP on 16 bytes at the calls.
TEXT walkC(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BP
	MOVQ  SP, BP
	PUSHQ BX
	PUSHQ R12
	PUSHQ R13
	PUSHQ R14
	MOVQ  DI, BX
	MOVQ  0(BX), R12
	MOVQ  8(BX), R13

next:
	TESTQ R13, R13
	JZ    done
	MOVQ  16(R12), AX
	TESTQ AX, AX
	JZ    invoke
	MOVQ  0(AX), AX
	MOVQ  24(R12), CX
	MOVQ  AX, 0(CX)

invoke:
	MOVQ  0(R12), AX
	MOVQ  8(R12), DI
	CALL  AX
	ADDQ  $32, R12
	DECQ  R13
	TESTQ AX, AX
	JZ    next
	MOVQ  AX, 16(BX)

done:
	MOVQ R12, 0(BX)
	MOVQ R13, 8(BX)
	XORL AX, AX
	POPQ R14
	POPQ R13
	POPQ R12
	POPQ BX
	POPQ BP
	RET
