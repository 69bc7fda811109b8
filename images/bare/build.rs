//! Tells the linker where the image's layout is described.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    println!("cargo:rerun-if-changed=kernel.ld");
    println!("cargo:rustc-link-arg-bins=-T{folder}/kernel.ld");
}
