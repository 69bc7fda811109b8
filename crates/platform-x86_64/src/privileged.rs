//! Every instruction that only the kernel may execute, one function each, and nothing else.
//! Page-table stores are in [`crate::tables`]; all other modules are built on these two.
//!
//! What could undo what keeps a domain to its part is in the section `.text.critical`, and nowhere
//! else in what spaces map as code; what of it a domain may not do asks [`crate::guard`] first.

use core::arch::asm;

use crate::guard;

/// Reads a byte from an I/O port.
///
/// # Safety
/// Reading the port has no effect that breaks its device's driver.
pub unsafe fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller vouches for the effect on the device; memory is untouched.
    unsafe {
        asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// Writes a byte to an I/O port.
///
/// # Safety
/// The device at the port expects the value and, at its word, touches no memory in use.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn out8(port: u16, value: u8) {
    check(port);
    // SAFETY: the caller vouches for the effect on the device; memory is untouched.
    unsafe {
        asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags));
    }
}

/// Reads 16 bits from an I/O port.
///
/// # Safety
/// As for [`in8`].
pub unsafe fn in16(port: u16) -> u16 {
    let value;
    // SAFETY: the caller vouches for the effect on the device; memory is untouched.
    unsafe {
        asm!("in ax, dx", in("dx") port, out("ax") value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// Writes 16 bits to an I/O port.
///
/// # Safety
/// As for [`out8`].
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn out16(port: u16, value: u16) {
    check(port);
    // SAFETY: the caller vouches for the effect on the device; memory is untouched.
    unsafe {
        asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags));
    }
}

/// Writes 32 bits to an I/O port.
///
/// # Safety
/// As for [`out8`].
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn out32(port: u16, value: u32) {
    check(port);
    // SAFETY: the caller vouches for the effect on the device; memory is untouched.
    unsafe {
        asm!(
            "out dx, eax", in("dx") port, in("eax") value,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Ends the incarnation of a core that may not write to this port.
fn check(port: u16) {
    if let Err(violation) = guard::port(port) {
        guard::refuse(violation)
    }
}

/// Masks maskable interrupts on this core.
pub fn disable_interrupts() {
    // SAFETY: masking interrupts delays handlers and changes no memory.
    unsafe { asm!("cli", options(nostack)) }
}

/// Lets maskable interrupts in.
///
/// # Safety
/// The interrupt table is loaded, and every source that is not masked has a handler.
pub unsafe fn enable_interrupts() {
    // SAFETY: the caller vouches for the handlers.
    unsafe { asm!("sti", options(nostack)) }
}

/// Lets interrupts in and stops until one comes; the two are one window, so that an interrupt
/// between a check made with interrupts masked and the stop still ends it.
///
/// # Safety
/// As for [`enable_interrupts`].
pub unsafe fn enable_interrupts_and_halt() {
    // SAFETY: the caller vouches for the handlers.
    unsafe { asm!("sti", "hlt", options(nostack)) }
}

/// Stops this core for good: nothing but a reset or an INIT wakes it.
pub fn halt_forever() -> ! {
    loop {
        // SAFETY: with interrupts masked the core does nothing at all.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) }
    }
}

/// The time-stamp counter.
pub fn read_tsc() -> u64 {
    // SAFETY: reading the counter has no effect, and CR4.TSD is never set.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads 32 bits from an I/O port.
///
/// # Safety
/// As for [`in8`].
pub unsafe fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: the caller vouches for the effect on the device; memory is untouched.
    unsafe {
        asm!(
            "in eax, dx", in("dx") port, out("eax") value,
            options(nomem, nostack, preserves_flags)
        );
    }
    value
}

/// Whether maskable interrupts come in now.
pub fn interrupts_enabled() -> bool {
    const INTERRUPT_FLAG: u64 = 1 << 9;
    let flags: u64;
    // SAFETY: the push goes below the stack pointer, where nothing is kept (no red zone).
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) }
    flags & INTERRUPT_FLAG != 0
}

/// Does `work` with maskable interrupts masked, and leaves them as they were.
pub fn without_interrupts<R>(work: impl FnOnce() -> R) -> R {
    let enabled = interrupts_enabled();
    disable_interrupts();
    let result = work();
    if enabled {
        // SAFETY: they were let in before, so every source has its handler.
        unsafe { enable_interrupts() }
    }
    result
}

/// Reads a model-specific register.
///
/// # Safety
/// The processor has the register.
pub unsafe fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller vouches for the register; reading one touches no memory.
    unsafe {
        asm!(
            "rdmsr", in("ecx") register, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags)
        );
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
/// The processor has the register, and the value breaks nothing that running code relies on.
pub unsafe fn write_msr(register: u32, value: u64) {
    if let Err(violation) = guard::register(register, value) {
        guard::refuse(violation)
    }
    // SAFETY: the caller's promise.
    unsafe { write_command(register, value) }
}

/// Writes a command for other cores, which was judged, to the x2APIC's register.
///
/// # Safety
/// As for [`write_msr`].
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn write_command(register: u32, command: u64) {
    let (low, high) = (command as u32, (command >> 32) as u32);
    // SAFETY: the caller vouches for the register and the value.
    unsafe {
        asm!(
            "wrmsr", in("ecx") register, in("eax") low, in("edx") high,
            options(nostack, preserves_flags)
        );
    }
}

/// What LGDT and LIDT read: where a descriptor table is and how long.
#[repr(C, packed)]
struct TablePointer {
    last_byte: u16,
    base: u64,
}

/// Loads the segment descriptors and makes the segment registers use them. FS and GS are cleared.
///
/// # Safety
/// The `bytes` bytes at `table` stay a descriptor table whose `code` is 64-bit kernel code and
/// whose `data` is kernel data.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn load_segments(table: *const u64, bytes: usize, code: u16, data: u16) {
    check_descriptors(table.addr(), bytes);
    let pointer = TablePointer { last_byte: (bytes - 1) as u16, base: table as u64 };
    // SAFETY: the caller vouches for the table and the selectors; the far return continues at the
    // next instruction.
    unsafe {
        asm!(
            "lgdt [{pointer}]",
            "push {code}",
            "lea {next}, [rip + 2f]",
            "push {next}",
            "retfq",
            "2:",
            "mov ss, {data:e}",
            "mov ds, {data:e}",
            "mov es, {data:e}",
            "mov fs, {zero:e}",
            "mov gs, {zero:e}",
            pointer = in(reg) &raw const pointer,
            code = in(reg) u64::from(code),
            data = in(reg) u64::from(data),
            zero = in(reg) 0u64,
            next = out(reg) _,
            options(preserves_flags),
        );
    }
}

/// Ends the incarnation of a core whose descriptors are not to be there.
fn check_descriptors(at: usize, bytes: usize) {
    if let Err(violation) = guard::descriptors(nile_abi::VirtAddr(at as u64), bytes) {
        guard::refuse(violation)
    }
}

/// Makes the task state segment that `selector` names this core's.
///
/// # Safety
/// The loaded descriptors hold an available 64-bit task state segment there, which stays.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn load_task_register(selector: u16) {
    // SAFETY: the caller vouches for the descriptor. The processor marks it busy.
    unsafe { asm!("ltr {0:x}", in(reg) selector, options(nostack, preserves_flags)) }
}

/// Loads the interrupt table.
///
/// # Safety
/// The `bytes` bytes at `table` stay a table of valid gates.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn load_interrupt_table(table: *const u8, bytes: usize) {
    check_descriptors(table.addr(), bytes);
    let pointer = TablePointer { last_byte: (bytes - 1) as u16, base: table as u64 };
    // SAFETY: the caller vouches for the table.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, preserves_flags)) }
}

/// The address that the last page fault was about.
pub fn page_fault_address() -> u64 {
    let address;
    // SAFETY: reading CR2 has no effect.
    unsafe {
        asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    address
}

/// Makes this core forget what it keeps of the page that covers `at`.
pub fn invalidate_page(at: nile_abi::VirtAddr) {
    // SAFETY: forgetting a translation changes no memory; it is walked again when needed.
    unsafe { asm!("invlpg [{}]", in(reg) at.0, options(nostack, preserves_flags)) }
}

/// Makes this core forget every translation that it keeps.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub fn invalidate_all() {
    // SAFETY: the same tables are loaded again; no page is marked global.
    unsafe {
        asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack, preserves_flags));
    }
}

/// The root of the address space that this core is in.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub fn root() -> nile_abi::PhysAddr {
    let root: u64;
    // SAFETY: nothing is written.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nostack, preserves_flags, nomem)) }
    nile_abi::PhysAddr(root)
}

/// Goes on in the address space whose root this is, and forgets every translation of the last one.
///
/// # Safety
/// It maps whatever running code relies on, as the last one did.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn load_root(root: nile_abi::PhysAddr) {
    if let Err(violation) = guard::root(root) {
        guard::refuse(violation)
    }
    // SAFETY: the caller's promise; no page is marked global.
    unsafe { asm!("mov cr3, {}", in(reg) root.0, options(nostack, preserves_flags)) }
}

/// The control word of the x87 unit.
pub fn x87_control() -> u16 {
    let mut control = 0u16;
    // SAFETY: the word is stored to a local; nothing else changes.
    unsafe {
        asm!("fnstcw [{}]", in(reg) &raw mut control, options(nostack, preserves_flags));
    }
    control
}

/// Empties the x87 unit, and gives it this control word.
pub fn begin_x87(control: u16) {
    // SAFETY: the kernel has nothing in the unit, and never uses it.
    unsafe {
        asm!("fninit", "fldcw [{}]", in(reg) &raw const control, options(nostack, preserves_flags));
    }
}

/// Clears the segment registers that 64-bit code does not need.
///
/// # Safety
/// The kernel reaches nothing through FS or GS.
pub unsafe fn clear_data_segments() {
    // SAFETY: the null selector is always allowed, and in 64-bit mode DS and ES are ignored.
    unsafe {
        asm!(
            "mov ds, {0:e}", "mov es, {0:e}", "mov fs, {0:e}", "mov gs, {0:e}",
            in(reg) 0u64, options(nomem, nostack, preserves_flags),
        );
    }
}

/// Lets the kernel touch user pages, where SMAP forbids it.
///
/// # Safety
/// The processor has SMAP. It is forbidden again before anything else is done.
pub unsafe fn allow_user_access() {
    // SAFETY: the caller's promise.
    unsafe { asm!("stac", options(nostack)) }
}

/// Forbids it again.
///
/// # Safety
/// The processor has SMAP.
pub unsafe fn forbid_user_access() {
    // SAFETY: the caller's promise.
    unsafe { asm!("clac", options(nostack)) }
}

/// Copies bytes by two instructions, and touches no memory else: for user memory. Words first: a
/// processor that is emulated copies one at a time, whatever its size.
///
/// # Safety
/// The bytes at `from` can be read and those at `to` written, and they do not overlap.
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; the direction flag is clear, as everywhere in compiled code.
    unsafe {
        asm!(
            "rep movsq", "mov rcx, {rest}", "rep movsb",
            rest = in(reg) bytes % 8, inout("rcx") bytes / 8 => _,
            inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets bits of CR4.
///
/// # Safety
/// CPUID has the features, and running code gets along with them.
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub unsafe fn set_cr4(bits: u64) {
    // SAFETY: the caller vouches for the features.
    unsafe {
        asm!(
            "mov {0}, cr4", "or {0}, {1}", "mov cr4, {0}",
            out(reg) _, in(reg) bits, options(nostack),
        );
    }
}

/// Whether the kernel may not write, either, what is mapped read-only (CR0.WP).
#[inline(never)]
#[unsafe(link_section = ".text.critical")]
pub fn set_write_protection(is_on: bool) {
    const WRITE_PROTECT: u64 = 1 << 16;
    let bit = if is_on { WRITE_PROTECT } else { 0 };
    // SAFETY: what is mapped read-only is the kernel's own; the caller decides what is written.
    unsafe {
        asm!(
            "mov {0}, cr0", "and {0}, {1}", "or {0}, {2}", "mov cr0, {0}",
            out(reg) _, in(reg) !WRITE_PROTECT, in(reg) bit, options(nostack),
        );
    }
}

/// Interrupts this core through the gate that panics are reported by, which never returns.
pub fn raise_panic() -> ! {
    // SAFETY: an interrupt saves and restores everything; its handler ends the incarnation.
    unsafe {
        asm!("int {}", "ud2", const crate::vector::Vector::PANIC.0, options(noreturn));
    }
}

/// Makes this core watch a cache line for stores.
pub fn monitor<T>(line: &T) {
    // SAFETY: watching a line reads it and changes nothing.
    unsafe {
        asm!(
            "monitor", in("rax") core::ptr::from_ref(line), in("ecx") 0, in("edx") 0,
            options(nostack, preserves_flags),
        );
    }
}

/// Lets interrupts in and waits until the watched line is stored to, or an interrupt comes; the
/// two are one window, as in [`enable_interrupts_and_halt`].
///
/// # Safety
/// As for [`enable_interrupts`]; CPUID has MWAIT.
pub unsafe fn enable_interrupts_and_mwait() {
    // SAFETY: the caller vouches for the handlers and the feature.
    unsafe { asm!("sti", "mwait", in("eax") 0, in("ecx") 0, options(nostack)) }
}
