# See entry.rs. Everything here is linked where it is loaded, below 1 GiB.

.set CR0_PAGING_ON, 0x80010033   # PG, WP, NE, ET, MP, PE
.set CR4_BOOT, 0x620             # PAE, OSFXSR, OSXMMEXCPT
.set EFER, 0xc0000080
.set EFER_LME_NXE, 0x900
.set NO_EXECUTE, 20              # bits of CPUID 0x80000001, EDX
.set PAGES_OF_1_GIB, 26
.set LONG_MODE, 29
.set DEBUG_EXIT_BYTES, 10
.set CODE64, 0x08
.set DATA, 0x10
.set PRESENT_WRITABLE, 0x3
.set PRESENT_WRITABLE_LARGE, 0x83

.section .note.pvh, "a", @note
.align 4
    .long 4, 4, 18               # name and description bytes; type: physical 32-bit entry
    .asciz "Xen"
    .long boot_entry

.section .multiboot2, "a"
.align 8
multiboot2_header:
    .long 0xe85250d6, 0, multiboot2_end - multiboot2_header
    .long -(0xe85250d6 + (multiboot2_end - multiboot2_header))
    .short 6, 0                  # tag: modules on page boundaries
    .long 8
    .short 0, 0                  # end of tags
    .long 8
multiboot2_end:

.section .boot.text, "ax", @progbits

.code32
.global boot_entry
boot_entry:
    cli
    cld
    mov ebp, eax                 # who loaded us
    mov esp, offset boot_stack_top
    rdtsc
    push edx                     # together one 64-bit value, popped in long mode
    push eax

    # A processor that cannot run the rest says so, and the node ends.
    push ebx
    mov esi, offset no_long_mode
    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb refuse
    mov eax, 0x80000001
    cpuid
    bt edx, LONG_MODE
    jnc refuse
    mov esi, offset no_no_execute
    bt edx, NO_EXECUTE
    jnc refuse
    pop ebx

    mov esi, offset data_load
    mov edi, offset pristine_start
    mov ecx, offset data_bytes
    rep movsb

    # 2 MiB pages for the first 4 GiB: four page directories in a row.
    xor ecx, ecx
1:  mov eax, ecx
    shl eax, 21
    or eax, PRESENT_WRITABLE_LARGE
    mov [boot_directories + ecx * 8], eax
    inc ecx
    cmp ecx, 2048
    jne 1b

    # Low: those four, or 1 GiB pages where the processor has them.
    mov dword ptr [boot_low + 0], offset boot_directories + PRESENT_WRITABLE
    mov dword ptr [boot_low + 8], offset boot_directories + 0x1000 + PRESENT_WRITABLE
    mov dword ptr [boot_low + 16], offset boot_directories + 0x2000 + PRESENT_WRITABLE
    mov dword ptr [boot_low + 24], offset boot_directories + 0x3000 + PRESENT_WRITABLE
    bt edx, PAGES_OF_1_GIB
    jnc 3f
    xor ecx, ecx
2:  mov eax, ecx
    shl eax, 30
    or eax, PRESENT_WRITABLE_LARGE
    mov [boot_low + ecx * 8], eax
    mov eax, ecx
    shr eax, 2
    mov [boot_low + ecx * 8 + 4], eax
    inc ecx
    cmp ecx, 512
    jne 2b
3:
    # High: the first 1 GiB at the last 2 GiB of all addresses.
    mov dword ptr [boot_high + 510 * 8], offset boot_directories + PRESENT_WRITABLE
    mov dword ptr [boot_root], offset boot_low + PRESENT_WRITABLE
    mov dword ptr [boot_root + 511 * 8], offset boot_high + PRESENT_WRITABLE

    mov edi, offset boot_long
    jmp enter_long_mode

# Ends the node before it begins: the text at ESI goes to the first serial port, as far as that takes
# it. What the loader has to say is on the stack. QEMU is ended as `power.rs` does it, if the command
# line of a PVH loader begins with that; any other machine stands still, so that the text can be read.
refuse:
    mov dx, 0x3fb                # line control: the next two set the speed
    mov al, 0x80
    out dx, al
    mov dx, 0x3f9
    xor al, al
    out dx, al
    mov dx, 0x3f8                # 115200 baud
    inc al
    out dx, al
    mov dx, 0x3fb                # 8 bits, no parity, one stop bit
    mov al, 0x03
    out dx, al
1:  lodsb
    test al, al
    jz 3f
    mov ah, al
    mov dx, 0x3fd                # line status: is there room?
    mov ecx, 1 << 20
2:  in al, dx
    test al, 0x20
    loopz 2b
    mov dx, 0x3f8
    mov al, ah
    out dx, al
    jmp 1b
3:  pop ebx
    cmp dword ptr [ebx], 0x336ec578
    jne 4f
    mov esi, [ebx + 24]
    mov edi, offset debug_exit
    mov ecx, DEBUG_EXIT_BYTES
    repe cmpsb
    jne 4f
    mov al, 0x11
    out 0xf4, al
4:  hlt
    jmp 4b

no_long_mode:
    .asciz "[start] the node does not start: this processor has no long mode (x86_64)\n"
no_no_execute:
    .ascii "[start] the node does not start: this processor cannot keep data from being executed "
    .asciz "(NX), or firmware has switched that off\n"
debug_exit:
    .ascii "exit=debug"

# Turns on long mode over the boot tables and continues at EDI with 64-bit segments. Needs no
# stack. Keeps EBX, EBP and ESP.
.global enter_long_mode
enter_long_mode:
    mov eax, CR4_BOOT
    mov cr4, eax
    mov eax, offset boot_root
    mov cr3, eax
    mov ecx, EFER
    rdmsr
    or eax, EFER_LME_NXE
    wrmsr
    mov eax, CR0_PAGING_ON
    mov cr0, eax
    lgdt [boot_gdt_pointer]
    .byte 0xea                   # far jump to CODE64:long_mode
    .long long_mode
    .short CODE64

.code64
long_mode:
    mov eax, DATA
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov edi, edi                 # the upper half is undefined after a mode switch
    jmp rdi

boot_long:
    mov esp, esp
    pop rdx                      # the first time-stamp
    mov edi, ebp                 # who loaded us
    mov esi, ebx                 # what it has to say
    movabs rax, 0xffffffff80000000
    add rsp, rax                 # the same stack, seen from the higher half
    movabs rax, offset {boot}
    xor ebp, ebp                 # backtraces end here
    call rax
    ud2

.align 8
.global boot_gdt
boot_gdt:
    .quad 0
    .quad 0x00af9a000000ffff     # CODE64
    .quad 0x00cf92000000ffff     # DATA
    .quad 0x00cf9a000000ffff     # 32-bit code, for application cores on their way
boot_gdt_end:
.global boot_gdt_pointer
boot_gdt_pointer:
    .short boot_gdt_end - boot_gdt - 1
    .quad boot_gdt               # 32-bit code takes the lower half

.section .boot.bss, "aw", @nobits
.align 4096
.global boot_root
boot_root: .skip 4096
boot_low: .skip 4096
boot_high: .skip 4096
boot_directories: .skip 4 * 4096
boot_stack: .skip {boot_stack_bytes}
.global boot_stack_top
boot_stack_top:
.global boot_interrupt_stacks
boot_interrupt_stacks: .skip {boot_interrupt_stack_bytes}
.global early_heap
early_heap: .skip {early_heap_bytes}
