# See space.rs. The way into a core's own space and out of it is in one page, which is at the same
# addresses in all spaces, the boot space, too: a core fetches from it before and after it loads a
# root. Cores that run another image have the page of the image that the machine was booted with, so
# what it does is as if it were in each image; the words at its beginning are each image's own.

.section .gate, "ax", @progbits
.balign 4096

# What an image says about itself: see images.rs.
.global gate_words
gate_words:
    .ascii "NILEKERN"
    .quad {abi}
    .quad begin_core
    .quad text_start, text_end
    .quad rodata_start, rodata_end
    .quad guard_start, guard_end
    .quad shared_start, shared_end
    .quad descriptors_start, descriptors_end
    .quad data_start, data_end, private_end
    .quad pristine_start, pristine_end

# Until an image has segments and handlers of its own, a core has these: whatever goes wrong parks
# it.
.balign 16
gate_segments:
    .quad 0
    .quad 0x00af9b000000ffff     # as those of the boot path, but marked as used: nobody writes here
    .quad 0x00cf93000000ffff
gate_segments_end:
gate_segments_pointer:
    .short gate_segments_end - gate_segments - 1
    .quad gate_segments
.balign 16
gate_handlers:
.rept 32
    .short 0x0800, 0x08          # to gate_failed, as an interrupt gate
    .byte 0, 0x8e
    .short 0x8010
    .long 0xffffffff, 0
.endr
gate_handlers_end:
gate_handlers_pointer:
    .short gate_handlers_end - gate_handlers - 1
    .quad gate_handlers

# The one way into a core's own space. Nothing here needs a stack, so that the stack that is left
# may lie anywhere, and may be the one that is entered.
.balign 16
.global enter_space
enter_space:                     # rdi: core, rsi: node, rdx: root, rcx: top of the stack, r8: where
    cli
    cld
    mov cr3, rdx
    mov rsp, rcx
    mov rax, cr0                 # the last incarnation may have ended in the guard's gate
    or rax, 0x10000              # WP
    mov cr0, rax
    lgdt [rip + gate_segments_pointer]
    lidt [rip + gate_handlers_pointer]
    jmp r8

# The way out, to where a core is parked: for a core that leaves, and for one that fails before it
# has begun. Nothing here needs a stack.
.balign 2048
.global gate_failed
gate_failed:
.global leave_space
leave_space:
    cli
    mov edx, offset boot_root
    mov cr3, rdx
    mov eax, offset ap_long
    jmp rax

.section .text.begin, "ax", @progbits

# Where a core of this image begins, as enter_space leaves it; the boot path begins a domain so.
.global begin_core
begin_core:
    mov r8, offset {core_start}
    jmp begin
.global begin_domain
begin_domain:
    mov r8, offset {domain_begin}
begin:
    mov r10, rdi
    mov r9, rsi

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
