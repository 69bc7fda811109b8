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
.global ap_long
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
    add r10, 64
    dec r9d
    jmp 3b
4:  mov rdx, [r10 + 16]
    test rdx, rdx
    jz park
enter:
    mov qword ptr [r10 + 40], 0
    mov qword ptr [r10 + 16], 0
    mov edi, [r10 + 4]
    mov rsi, [r10 + 8]
    mov rcx, [r10 + 24]
    mov r8, [r10 + 32]
    movabs rax, offset enter_space
    jmp rax
5:  cli                          # nobody asked for this core
    hlt
    jmp 5b

# Here a core waits that has no space, over the boot tables: R10 is its entry in the table. It
# sleeps until another core interrupts it, and then looks whether there is a space for it. The stack
# is never read, so that all parked cores have one. Nothing of whoever ran here before is left in
# the registers of the space that is entered next.
park:
    mov esp, offset park_stack_top
    lgdt [boot_gdt_pointer]
    mov eax, 0x10
    mov ss, eax
    push 0x08
    mov eax, offset park_segments
    push rax
    retfq
park_segments:
    lidt [park_interrupts]
    fninit
    ldmxcsr [park_mxcsr]
.irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    xorps xmm\number, xmm\number
.endr
    xor ebp, ebp
    xor r11d, r11d
    xor r12d, r12d
    xor r13d, r13d
    xor r14d, r14d
    xor r15d, r15d
    # Its interrupt controller lets others' interrupts in, and has none in service.
    mov ecx, 0x1b
    rdmsr
    test eax, 0x400
    jnz 2f
    mov ebx, [park_apic]
    mov dword ptr [rbx + 0xf0], 0x1ff
    mov dword ptr [rbx + 0x80], 0
    mov ecx, 8
1:  mov dword ptr [rbx + 0xb0], 0
    loop 1b
    jmp 4f
2:  xor edx, edx
    mov eax, 0x1ff
    mov ecx, 0x80f
    wrmsr
    xor eax, eax
    mov ecx, 0x808
    wrmsr
    mov ebx, 8
    mov ecx, 0x80b
3:  wrmsr
    dec ebx
    jnz 3b
4:  mov qword ptr [r10 + 40], 1
parked:
    mov esp, offset park_stack_top
    mov rdx, [r10 + 16]
    test rdx, rdx
    jnz enter
    sti
    hlt
    cli
    jmp parked

# Whatever interrupts a parked core.
.global park_woken
park_woken:
    mov ecx, 0x1b
    rdmsr
    test eax, 0x400
    jnz 1f
    mov ebx, [park_apic]
    mov dword ptr [rbx + 0xb0], 0
    jmp parked
1:  xor eax, eax
    xor edx, edx
    mov ecx, 0x80b
    wrmsr
    jmp parked

.balign 4
park_mxcsr: .long 0x1f80
park_interrupts:
    .short 4095
    .quad park_gates

.section .boot.bss, "aw", @nobits
.balign 4096
.global ap_starts
ap_starts: .skip 256 * 64
.global ap_order
ap_order: .skip 8192 - 64
.global ap_count
ap_count: .skip 64
.global ap_shared_end
ap_shared_end:
.global park_gates
park_gates: .skip 4096
.skip 256
park_stack_top:
.global park_apic
park_apic: .skip 4
