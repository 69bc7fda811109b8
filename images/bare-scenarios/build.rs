//! Tells the linker where the layout of bare images is described.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    println!("cargo:rerun-if-changed=../bare/kernel.ld");
    println!("cargo:rustc-link-arg-bins=-T{folder}/../bare/kernel.ld");
}
