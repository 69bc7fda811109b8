//! What a freestanding binary must bring itself: the heap, the panic hook, memory routines.

use core::panic::PanicInfo;

use nile_platform_x86_64::heap::PrivateHeap;

#[global_allocator]
static HEAP: PrivateHeap = PrivateHeap;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    nile_platform_x86_64::fault::panic(info)
}

// The compiled `core` and `alloc` can unwind and name these two; the image does not unwind, and
// nothing ever calls them.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    nile_platform_x86_64::privileged::halt_forever()
}

// The compiler calls these by name. In assembly, because a loop written in Rust would be compiled
// into a call of itself.
core::arch::global_asm!(
    r#"
.section .text.memory_routines, "ax", @progbits

.global memcpy
memcpy:
    mov rax, rdi
    mov rcx, rdx
    shr rcx, 3
    rep movsq
    mov ecx, edx
    and ecx, 7
    rep movsb
    ret

.global memmove
memmove:
    mov rax, rdi
    sub rax, rsi
    cmp rax, rdx                 # as unsigned: the target starts inside the source
    jae memcpy
    mov rax, rdi                 # downwards, where string instructions take a byte a cycle
    sub rdx, 16
    jb 2f
1:  mov rcx, [rsi + rdx + 8]
    mov r8, [rsi + rdx]
    mov [rdi + rdx + 8], rcx
    mov [rdi + rdx], r8
    sub rdx, 16
    jae 1b
2:  add rdx, 16
    jz 4f
3:  mov cl, [rsi + rdx - 1]
    mov [rdi + rdx - 1], cl
    dec rdx
    jnz 3b
4:  ret

.global memset
memset:
    mov r8, rdi
    movzx eax, sil
    movabs rcx, 0x0101010101010101
    imul rax, rcx
    mov rcx, rdx
    shr rcx, 3
    rep stosq
    mov ecx, edx
    and ecx, 7
    rep stosb
    mov rax, r8
    ret

.global memcmp
.global bcmp
memcmp:
bcmp:
    xor eax, eax
    mov rcx, rdx
    test rcx, rcx
    jz 1f
    repe cmpsb
    movzx eax, byte ptr [rdi - 1]
    movzx ecx, byte ptr [rsi - 1]
    sub eax, ecx
1:  ret
"#
);
