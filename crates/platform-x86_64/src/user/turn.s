# See turn.rs. The turn is this core's own, at one address on every core; so the way in needs no
# register to find it by.

.section .text.user, "ax", @progbits

# What a function keeps, on the kernel's stack.
.macro leave_kernel
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    mov [rip + {turn} + {kernel_stack}], rsp
.endm

.global user_resume
user_resume:
    leave_kernel
    lea rsp, [rip + {turn}]      # as an interrupt stub would find it on its stack
    jmp interrupt_return

.global user_answer
user_answer:
    leave_kernel
    ldmxcsr [rip + {turn} + {mxcsr}]
    # A call keeps no vector register, and the kernel leaves nothing in them.
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    xorps xmm\number, xmm\number
    .endr
    xor edi, edi
    xor esi, esi
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    mov r15, [rip + {turn} + {r15}]
    mov r14, [rip + {turn} + {r14}]
    mov r13, [rip + {turn} + {r13}]
    mov r12, [rip + {turn} + {r12}]
    mov rbp, [rip + {turn} + {rbp}]
    mov rbx, [rip + {turn} + {rbx}]
    mov rax, [rip + {turn} + {rax}]
    mov rdx, [rip + {turn} + {rdx}]
    mov rcx, [rip + {turn} + {rip}]
    mov r11d, {user_flags}
    # Interrupts are masked up to here; what is not masked has stacks of its own.
    mov rsp, [rip + {turn} + {rsp}]
    sysretq

# From SYSCALL, with interrupts masked and the package's stack pointer.
.global user_call
user_call:
    mov [rip + {turn} + {rsp}], rsp
    mov rsp, [rip + {turn} + {kernel_stack}]
    mov [rip + {turn} + {rip}], rcx
    mov [rip + {turn} + {rbx}], rbx
    mov [rip + {turn} + {rbp}], rbp
    mov [rip + {turn} + {r12}], r12
    mov [rip + {turn} + {r13}], r13
    mov [rip + {turn} + {r14}], r14
    mov [rip + {turn} + {r15}], r15
    mov [rip + {turn} + {rdi}], rdi
    mov [rip + {turn} + {rsi}], rsi
    mov [rip + {turn} + {rdx}], rdx
    mov [rip + {turn} + {r10}], r10
    mov [rip + {turn} + {r8}], r8
    mov [rip + {turn} + {r9}], r9
    # The package may have unmasked exceptions of vector arithmetic. What it has in the x87
    # registers stays there: the kernel uses none.
    stmxcsr [rip + {turn} + {mxcsr}]
    ldmxcsr [rip + user_kernel_mxcsr]
    mov eax, {called}

# With the reason in RAX; from above, or by IRETQ from an interrupt that ended the turn.
.global user_left
user_left:
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret

.section .rodata.user, "a", @progbits
.balign 4
user_kernel_mxcsr: .long {kernel_mxcsr}
