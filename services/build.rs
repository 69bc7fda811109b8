//! Finds the services: every folder beside this file that has a `mod.rs` is one, and needs no
//! other entry anywhere (NileOS paper, III.C). An image for some of them names these in the
//! variable `NILE_ONLY`, with commas between; the linker leaves out the others.

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
    println!("cargo::rerun-if-env-changed=NILE_ONLY");
    let only = env::var("NILE_ONLY").ok();
    let is_in = |name: &&String| {
        only.as_ref().is_none_or(|only| only.split(',').any(|it| it == name.as_str()))
    };
    let mut code = String::new();
    for name in &names {
        let path = Path::new(&here).join(name).join("mod.rs");
        let _ = writeln!(code, "#[path = {path:?}]\npub mod {name};");
    }
    let all = names.iter().filter(is_in);
    let entries: Vec<String> = all.map(|name| format!("&{name}::REGISTRATION")).collect();
    let _ = writeln!(
        code,
        "/// Every service of the image, by name.\n\
         pub static ALL: [&::nile_stl::Registration; {}] = [{}];",
        entries.len(),
        entries.join(", ")
    );
    let offers = |name: &str| is_in(&&String::from(name));
    let _ = writeln!(code, "/// Whether the optimisers of roles are among them.");
    let _ = writeln!(code, "const HAS_OPTIMISERS: bool = {};", offers("role_assignment"));
    let _ = writeln!(code, "/// Whether records are.");
    let _ = writeln!(code, "const HAS_RECORDS: bool = {};", offers("records"));
    let _ = writeln!(code, "/// Whether datasets are.");
    let _ = writeln!(code, "const HAS_DATASETS: bool = {};", offers("dataset"));
    fs::write(Path::new(&out).join("services.rs"), code).expect("OUT_DIR can be written");
}
