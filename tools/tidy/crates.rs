//! Which crates may know which, and which may know the machine that they are built for.

use toml::{Table, Value};

use crate::source::{Source, TokenKind};

const KERNEL: &str = "nile-kernel";

/// The conditions by which code asks for which machine it is compiled.
const TARGET: &str = "target_";

fn is_platform(path: &str) -> bool {
    path.starts_with("crates/platform-")
}

/// The manifests of the crates in `crates/`, and what they say.
fn manifests(tree: &[Source]) -> impl Iterator<Item = (&Source, Table)> {
    manifests_in(tree, &["crates/"])
}

/// The manifests below these folders.
fn manifests_in<'t>(
    tree: &'t [Source],
    folders: &'static [&'static str],
) -> impl Iterator<Item = (&'t Source, Table)> {
    let manifests = tree.iter().filter(|source| {
        folders.iter().any(|folder| source.path.starts_with(folder))
            && source.path.ends_with("/Cargo.toml")
    });
    manifests.map(|source| (source, source.text.parse().expect("cargo has read it, too")))
}

/// Every dependency, of whatever sort and for whatever target: its name here and what it is.
fn dependencies(manifest: &Table) -> Vec<(&String, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter();
    let targets = targets.flat_map(|targets| targets.values().filter_map(Value::as_table));
    let tables = targets.chain([manifest]).flat_map(|table| {
        ["dependencies", "dev-dependencies", "build-dependencies"].map(|sort| table.get(sort))
    });
    tables.flatten().filter_map(Value::as_table).flatten().collect()
}

/// Platforms that name the kernel, and other crates that name a platform. Only images see both.
pub fn wrong_dependencies(tree: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for (source, manifest) in manifests(tree) {
        for (name, what) in dependencies(&manifest) {
            let package = what.get("package").and_then(Value::as_str).unwrap_or(name);
            let wrong = match is_platform(&source.path) {
                true => package == KERNEL,
                false => package.starts_with("nile-platform-"),
            };
            if wrong {
                found.push(source.violation(1, &format!("depends on {package}")));
            }
        }
    }
    found
}

/// Packages that are linked with services, whose interfaces alone they need. One of the tests' runs
/// the user half of a service.
pub fn linked_services(tree: &[Source]) -> Vec<String> {
    let packages = manifests_in(tree, &["packages/", "jobs/", "crates/tasks/", "crates/user/"]);
    let others = packages.filter(|(source, _)| source.path != "packages/caller/Cargo.toml");
    let linked = others.filter(|(_, manifest)| {
        dependencies(manifest).iter().any(|(name, _)| name.as_str() == "nile-services")
    });
    linked.map(|(source, _)| source.violation(1, "depends on nile-services")).collect()
}

/// Crates that can be built in more than one way.
pub fn features(tree: &[Source]) -> Vec<String> {
    let is_optional = |what: &Value| what.get("optional").is_some();
    manifests(tree)
        .filter(|(_, manifest)| {
            manifest.contains_key("features")
                || dependencies(manifest).into_iter().any(|(_, what)| is_optional(what))
        })
        .map(|(source, _)| source.violation(1, "has Cargo features"))
        .collect()
}

/// Code that depends on the target outside platforms and images.
pub fn target_cfgs(tree: &[Source]) -> Vec<String> {
    let others = tree.iter().filter(|it| !is_platform(&it.path) && !it.path.starts_with("images/"));
    let found = others.flat_map(|source| {
        let lines = if source.is_rust() { cfgs_in_rust(source) } else { cfgs_in_manifest(source) };
        lines.into_iter().map(|line| source.violation(line, "depends on the target"))
    });
    found.collect()
}

fn cfgs_in_rust(source: &Source) -> Vec<usize> {
    let code = source.code();
    let is_cfg = |text: &str| text == "cfg" || text == "cfg_attr";
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate().filter(|(_, token)| token.text.starts_with(TARGET)) {
        // Back to where the condition begins, if this is one.
        let mut words = code[..at].iter().rev().take_while(|it| {
            use TokenKind::{CloseBracket, OpenBrace, OpenBracket, Semi};
            !matches!(it.kind, Semi | OpenBrace | OpenBracket | CloseBracket)
        });
        if words.any(|it| is_cfg(it.text)) {
            found.push(token.line);
        }
    }
    found
}

fn cfgs_in_manifest(source: &Source) -> Vec<usize> {
    if !source.path.ends_with(".toml") {
        return Vec::new();
    }
    let lines = source.lines().filter(|(_, line)| line.contains("cfg(") && line.contains(TARGET));
    lines.map(|(at, _)| at).collect()
}

mod tests {
    use super::*;
    use crate::violations;

    #[test]
    fn a_kernel_that_knows_a_platform_is_rejected() {
        let kernel = |text| violations(wrong_dependencies, &[("crates/kernel/Cargo.toml", text)]);
        assert_eq!(kernel("[dependencies]\nnile-platform.workspace = true\n"), 0);
        assert_eq!(kernel("[dependencies]\nnile-platform-sim.workspace = true\n"), 1);
        assert_eq!(kernel("[dev-dependencies]\na = { package = \"nile-platform-hosted\" }\n"), 1);
        assert_eq!(kernel("[target.x.dependencies]\nnile-platform-x86_64 = \"1\"\n"), 1);
    }

    #[test]
    fn a_platform_that_knows_the_kernel_is_rejected() {
        let platform =
            ("crates/platform-sim/Cargo.toml", "[dependencies.nile-kernel]\npath = \"\"");
        assert_eq!(violations(wrong_dependencies, &[platform]), 1);
        let image = ("images/hosted/Cargo.toml", "[dependencies]\nnile-kernel = \"1\"");
        assert_eq!(violations(wrong_dependencies, &[image]), 0);
    }

    #[test]
    fn a_package_that_is_linked_with_services_is_rejected() {
        let package = |path, text| violations(linked_services, &[(path, text)]);
        let services = "[dependencies]\nnile-services.workspace = true\n";
        assert_eq!(package("jobs/fwq/Cargo.toml", services), 1);
        assert_eq!(package("packages/caller/Cargo.toml", services), 0);
        let interfaces = "[dependencies]\nnile-interfaces.workspace = true\n";
        assert_eq!(package("jobs/fwq/Cargo.toml", interfaces), 0);
    }

    #[test]
    fn a_crate_with_features_is_rejected() {
        let crate_of = |text| violations(features, &[("crates/abi/Cargo.toml", text)]);
        assert_eq!(crate_of("[dependencies]\na = { version = \"1\", features = [\"b\"] }\n"), 0);
        assert_eq!(crate_of("[features]\nfast = []\n"), 1);
        assert_eq!(crate_of("[dependencies]\na = { version = \"1\", optional = true }\n"), 1);
    }

    #[test]
    fn a_condition_on_the_target_outside_platforms_is_rejected() {
        for code in [
            "#[cfg(target_os = \"linux\")]",
            "#[cfg(all(test, not(target_arch = \"x86_64\")))]",
            "fn a() { if cfg!(target_endian = \"big\") {} }",
        ] {
            assert_eq!(violations(target_cfgs, &[("crates/ring/src/a.rs", code)]), 1, "{code}");
            assert_eq!(violations(target_cfgs, &[("images/bare/src/a.rs", code)]), 0, "{code}");
        }
        let manifest = "[target.'cfg(target_os = \"linux\")'.dependencies]";
        assert_eq!(violations(target_cfgs, &[("crates/abi/Cargo.toml", manifest)]), 1);
        let innocent = "#[cfg(loom)]\nfn a(target_os: u8) {}";
        assert_eq!(violations(target_cfgs, &[("crates/ring/src/a.rs", innocent)]), 0);
    }
}
