//! Finds the services: every folder beside this file that has a `mod.rs` is one, and needs no
//! other entry anywhere (NileOS paper, III.C).

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed={here}");
    let folders = fs::read_dir(&here).expect("the crate's own folder can be read");
    let mut names: Vec<String> = folders
        .filter_map(|folder| folder.ok()?.file_name().into_string().ok())
        .filter(|name| name != "src" && Path::new(&here).join(name).join("mod.rs").exists())
        .collect();
    names.sort();
    let mut code = String::new();
    for name in &names {
        let path = Path::new(&here).join(name).join("mod.rs");
        let _ = writeln!(code, "#[path = {path:?}]\npub mod {name};");
    }
    let entries: Vec<String> = names.iter().map(|name| format!("&{name}::REGISTRATION")).collect();
    let _ = writeln!(
        code,
        "/// Every service, by name.\npub static ALL: [&::nile_stl::Registration; {}] = [{}];",
        names.len(),
        entries.join(", ")
    );
    fs::write(Path::new(&out).join("services.rs"), code).expect("OUT_DIR can be written");
}
