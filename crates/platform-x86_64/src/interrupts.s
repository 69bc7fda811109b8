# See interrupts.rs. Every stub makes the same frame, then all share one path.

.macro vector_stub number
    .balign 16
    # The processor pushes an error code with these; the others get a zero.
    .if \number == 8 || \number == 17 || \number == 21 || \number == 29 || \number == 30
    .elseif \number >= 10 && \number <= 14
    .else
        push 0
    .endif
    push \number
    jmp interrupt_entry
.endm

.section .text.interrupts, "ax", @progbits

.balign 16
.global interrupt_stubs
interrupt_stubs:
.altmacro
.set number, 0
.rept 256
    vector_stub %number
    .set number, number + 1
.endr
.noaltmacro

interrupt_entry:
    cld                          # a package may have been going down
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    # The stack is 16-byte aligned here: the processor aligns it and pushes 5 words, the stub 2,
    # this path 15, 22 in all. The handler may use vector registers, and is compiled for
    # processors without AVX, whose instructions leave the upper halves alone: FXSAVE suffices.
    sub rsp, 512
    fxsave64 [rsp]
    mov rdi, rsp                 # the whole state, for the handler
    xor ebp, ebp                 # a handler's own backtrace ends here
    call {handle}

# With the stack pointer at a whole state, which the core goes on in: see also user/turn.s.
.global interrupt_return
interrupt_return:
    fxrstor64 [rsp]
    add rsp, 512
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rbp
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rbx
    pop rax
    add rsp, 16                  # vector and error code
    iretq
