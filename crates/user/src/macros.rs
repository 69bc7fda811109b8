//! The macros of packages: [`package!`](crate::package!) and [`log!`](crate::log!).

/// Writes a line to the node's log: a [`System`](nile_abi::call::System), then as `format!` has it.
/// Gives what [`write_log`](crate::write_log) gives.
#[macro_export]
macro_rules! log {
    ($system:expr, $($line:tt)+) => {
        $crate::write_log($system, ::core::format_args!($($line)+))
    };
}

/// All of a package's `main.rs` but its first line:
///
/// ```text
/// #![cfg_attr(freestanding, no_std, no_main)]
///
/// nile_user::package! {
///     name: "hello",
///     publishes: ["greetings.hello"],
///     uses: ["pool"],
///     keeps: ["state 65536"],
///     answers: 2,
///     main: nile_hello::main,
/// }
/// ```
///
/// `publishes` names the service types that the package may publish, `uses` what it has besides its
/// own memory: `pool` is the node's pool of buffers, `frames` the frames of its network. `keeps`
/// names [keeps](crate::keep), each with its bytes. `answers` says how many seconds the package
/// calls nobody at most, unless it waits; a package that stays and is silent for longer hangs, and
/// its kernel ends it. All four may be left out. The names consist of ASCII letters, digits, `-`,
/// `_` and `.`. Built with `packages/build.toml`, it is a package; built like any other program, it
/// only says so.
#[macro_export]
macro_rules! package {
    (
        name: $name:literal,
        $(publishes: [$($published:literal),* $(,)?],)?
        $(uses: [$($used:literal),* $(,)?],)?
        $(keeps: [$($kept:literal),* $(,)?],)?
        $(answers: $answers:literal,)?
        main: $main:path $(,)?
    ) => {
        #[cfg(not(freestanding))]
        fn main() -> ::std::process::ExitCode {
            eprintln!(concat!($name, " is a package; build it with packages/build.toml"));
            ::std::process::ExitCode::from(2)
        }

        #[cfg(freestanding)]
        const MAIN: $crate::entry::Main = $main;

        #[cfg(freestanding)]
        mod freestanding {
            #[global_allocator]
            static HEAP: $crate::Heap = $crate::Heap::new();

            const MANIFEST: &str = concat!(
                "name ", $name $($(, "\npublishes ", $published)*)? $($(, "\nuses ", $used)*)?
                $($(, "\nkeeps ", $kept)*)? $(, "\nanswers ", $answers)?
            );

            #[used]
            #[unsafe(link_section = ".note.nile")]
            static NOTE: $crate::macros::Note<{ MANIFEST.len() }> =
                $crate::macros::Note::new(MANIFEST);

            #[unsafe(no_mangle)]
            unsafe extern "C" fn _start(table: *const $crate::abi::call::EntryTable) -> ! {
                // SAFETY: this is the package's first instruction.
                unsafe { $crate::entry::start(table, &HEAP, super::MAIN) }
            }

            #[panic_handler]
            fn panic(info: &::core::panic::PanicInfo<'_>) -> ! {
                $crate::entry::panicked(info, &HEAP)
            }

            // The compiled `core` and `alloc` can unwind and name these two; a package does not
            // unwind, and nothing ever calls them.
            #[unsafe(no_mangle)]
            extern "C" fn rust_eh_personality() {}

            #[unsafe(no_mangle)]
            extern "C" fn _Unwind_Resume() {}

            $crate::memory_routines!();
        }
    };
}

/// A package's manifest as a note of its file: see the crate `nile-package`.
#[doc(hidden)]
#[repr(C, align(4))]
pub struct Note<const N: usize> {
    name_bytes: u32,
    text_bytes: u32,
    kind: u32,
    name: [u8; 8],
    text: [u8; N],
}

impl<const N: usize> Note<N> {
    /// The note with this text, which has `N` bytes.
    pub const fn new(text: &str) -> Note<N> {
        let Some(text) = text.as_bytes().first_chunk() else {
            panic!("the note has the length of its text");
        };
        Note { name_bytes: 7, text_bytes: N as u32, kind: 1, name: *b"NileOS\0\0", text: *text }
    }
}

/// What the compiler calls by name. In assembly, because a loop written in Rust would be compiled
/// into a call of itself.
#[doc(hidden)]
#[macro_export]
macro_rules! memory_routines {
    () => {
        ::core::arch::global_asm!(
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

.global strlen
strlen:
    xor eax, eax
1:  cmp byte ptr [rdi + rax], 0
    je 2f
    inc rax
    jmp 1b
2:  ret
"#
        );
    };
}
