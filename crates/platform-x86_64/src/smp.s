# See smp.rs: from real mode in a page below 1 MiB to a core's own space.

.section .boot.text, "ax", @progbits

.code16
.global ap_trampoline
ap_trampoline:
    cli
    cld
    mov ax, cs
    mov ds, ax
    lgdtd [ap_gdt_offset]
    mov eax, cr0
    or eax, 1
    mov cr0, eax
    .byte 0x66, 0xea             # far jump to 32-bit code
    .long ap_protected
    .short 0x18
.balign 4
ap_gdt_pointer:
    .short 31
    .long boot_gdt
    .set ap_gdt_offset, ap_gdt_pointer - ap_trampoline
.global ap_trampoline_end
ap_trampoline_end:

.code32
ap_protected:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov edi, offset ap_long
    jmp enter_long_mode

.code64
ap_long:
    # Its APIC id: the wide one where the topology leaf has one, else the 8-bit one.
    xor eax, eax
    cpuid
    cmp eax, 0xb
    jb 1f
    mov eax, 0xb
    xor ecx, ecx
    cpuid
    mov r8d, edx
    test ebx, ebx
    jnz 2f
1:  mov eax, 1
    cpuid
    shr ebx, 24
    mov r8d, ebx
2:  mov r9d, [ap_count]
    mov r10d, offset ap_starts
3:  test r9d, r9d
    jz 5f
    cmp [r10], r8d
    je 4f
    add r10, 32
    dec r9d
    jmp 3b
4:  mov edi, [r10 + 4]
    mov rsi, [r10 + 8]
    mov rdx, [r10 + 16]
    mov rcx, [r10 + 24]
    movabs rax, offset enter_space
    jmp rax
5:  cli                          # nobody asked for this core
    hlt
    jmp 5b

.section .boot.bss, "aw", @nobits
.balign 16
.global ap_starts
ap_starts: .skip 256 * 32
.global ap_count
ap_count: .skip 4
