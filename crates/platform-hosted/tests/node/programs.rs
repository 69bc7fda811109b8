//! Packages in a few instructions each. They are started with the address of a table in memory
//! that they may read: the gate, and then the address of a word that they may write.

use std::arch::global_asm;
use std::slice;

global_asm!(
    ".pushsection .rodata.programs, \"a\"",
    ".global nile_test_programs, nile_test_programs_end",
    "nile_test_programs:",
    // Asks one thing, then another with what it was answered, and so on.
    ".balign 16, 0xcc; .global nile_test_ask; nile_test_ask:",
    "push rbx; push rbp; push r12",
    "mov rbx, rdi; mov rbp, 0x5555; mov r12, 0x1212",
    "xor edi, edi; mov esi, 5; mov edx, 0x11; mov ecx, 0x22; mov r8d, 0x33; mov r9d, 0x44",
    "2: call [rbx]",
    "cmp rbp, 0x5555; jne 9f; cmp r12, 0x1212; jne 9f",
    "lea rdi, [rax + 1]; lea rsi, [rdx + 1]; jmp 2b",
    "9: ud2",
    // Counts in a general register and in a floating-point one until the word is not zero, then
    // says how far it came. A count that is not the other, or a flag that changes, is a fault.
    ".balign 16, 0xcc; .global nile_test_count; nile_test_count:",
    "sub rsp, 8",
    "mov rbx, rdi; mov rcx, [rdi + 8]; xor esi, esi; xorpd xmm0, xmm0",
    "mov eax, 1; cvtsi2sd xmm1, rax; std",
    "2: inc rsi; addsd xmm0, xmm1",
    "mov [rsp - 100], rsi; cvttsd2si rax, xmm0; cmp rax, rsi; jne 9f; cmp [rsp - 100], rsi; jne 9f",
    "pushfq; pop rdx; test edx, 0x400; jz 9f",
    "cmp qword ptr [rcx], 0; je 2b",
    "cld; mov edi, 1; call [rbx]",
    "9: ud2",
    // Asks until the word is not zero, then says how often it did. Every answer is one more.
    ".balign 16, 0xcc; .global nile_test_chatter; nile_test_chatter:",
    "sub rsp, 8",
    "mov rbx, rdi; mov r12, [rdi + 8]; xor r13d, r13d",
    "2: xor edi, edi; mov rsi, r13; call [rbx]; inc r13; cmp rdx, r13; jne 9f",
    "cmp qword ptr [r12], 0; je 2b",
    "mov edi, 1; mov rsi, r13; call [rbx]",
    "9: ud2",
    // What no package may do.
    ".balign 16, 0xcc; .global nile_test_touch; nile_test_touch: mov eax, [0x1234560]; ud2",
    ".balign 16, 0xcc; .global nile_test_write; nile_test_write: mov [rdi], rdi; ud2",
    ".balign 16, 0xcc; .global nile_test_jump; nile_test_jump: mov rax, [rdi + 8]; jmp rax",
    ".balign 16, 0xcc; .global nile_test_wild; nile_test_wild:",
    "mov rax, 0xffff000000000000; mov [rax], rax; ud2",
    ".balign 16, 0xcc; .global nile_test_halt; nile_test_halt: hlt; ud2",
    ".balign 16, 0xcc; .global nile_test_clear; nile_test_clear: cli; ud2",
    ".balign 16, 0xcc; .global nile_test_input; nile_test_input: in al, 0x60; ud2",
    ".balign 16, 0xcc; .global nile_test_undefined; nile_test_undefined: ud2",
    ".balign 16, 0xcc; .global nile_test_break; nile_test_break: int3; ud2",
    ".balign 16, 0xcc; .global nile_test_divide; nile_test_divide:",
    "xor ecx, ecx; xor edx, edx; div ecx; ud2",
    ".balign 16, 0xcc; .global nile_test_recurse; nile_test_recurse:",
    "push rax; jmp nile_test_recurse",
    ".balign 16, 0xcc; .global nile_test_lost; nile_test_lost: mov esp, 16; 2: jmp 2b",
    ".balign 16, 0xcc; .global nile_test_return; nile_test_return: ret",
    ".balign 16, 0xcc; .global nile_test_linux; nile_test_linux: mov eax, 39; syscall; ud2",
    ".balign 16, 0xcc; .global nile_test_linux32; nile_test_linux32: mov eax, 20; int 0x80; ud2",
    "nile_test_programs_end:",
    ".popsection",
);

macro_rules! programs {
    ($($name:ident = $symbol:ident),+ $(,)?) => {
        unsafe extern "C" {
            static nile_test_programs: u8;
            static nile_test_programs_end: u8;
            $(static $symbol: u8;)+
        }
        $(
            /// Where the program of this name starts in [`code`].
            pub fn $name() -> u64 {
                (&raw const $symbol).addr() as u64 - (&raw const nile_test_programs).addr() as u64
            }
        )+
    };
}

programs! {
    ask = nile_test_ask, count = nile_test_count, chatter = nile_test_chatter,
    touch = nile_test_touch, write = nile_test_write, jump = nile_test_jump,
    wild = nile_test_wild, halt = nile_test_halt, clear = nile_test_clear,
    input = nile_test_input, undefined = nile_test_undefined, break_ = nile_test_break,
    divide = nile_test_divide, recurse = nile_test_recurse, lost = nile_test_lost,
    return_ = nile_test_return, linux = nile_test_linux, linux32 = nile_test_linux32,
}

/// The code of all programs, which may lie anywhere.
pub fn code() -> &'static [u8] {
    let start = &raw const nile_test_programs;
    let bytes = (&raw const nile_test_programs_end).addr() - start.addr();
    // SAFETY: the two symbols are the ends of one constant.
    unsafe { slice::from_raw_parts(start, bytes) }
}
