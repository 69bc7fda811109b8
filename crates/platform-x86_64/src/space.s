# See space.rs. The one way into a core's own space. Nothing here needs a stack, so that the
# stack that is left may lie anywhere, and may be the one that is entered.

.section .text.critical, "ax", @progbits

.global enter_space
enter_space:                     # rdi: core, rsi: node, rdx: root, rcx: top of the stack, r8: where
    cli
    cld
    mov cr3, rdx
    mov rsp, rcx
    mov r10, rdi
    mov r9, rsi
    mov rax, cr0                 # the last incarnation may have ended in the guard's gate
    or rax, 0x10000              # WP
    mov cr0, rax

    # Private data as the loader left it.
    movabs rsi, offset pristine_start + 0xffffffff80000000
    mov rdi, offset data_start
    mov ecx, offset data_bytes
    shr ecx, 3
    rep movsq
    # The rest is zero.
    mov rcx, offset private_end
    sub rcx, rdi
    shr rcx, 3
    xor eax, eax
    rep stosq

    mov rdi, r10
    mov rsi, r9
    xor ebp, ebp                 # backtraces end here
    call r8
    ud2

# The way out of a space, to where a core is parked. Nothing here needs a stack.
.global leave_space
leave_space:
    cli
    mov edx, offset boot_root
    mov cr3, rdx
    mov eax, offset ap_long
    jmp rax
