//! The walls of the house, held by a test: who may use whom, what core never
//! does, how long a file is, which licences come along.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    // Only what is built here: that is downloaded already, so no network is needed.
    let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = ["--offline", "--locked", "--filter-platform", &here].map(str::to_owned);
    command.manifest_path(root().join("Cargo.toml")).other_options(options.to_vec());
    command.exec().expect("cargo metadata")
}

/// Every hand-written file with one of the endings.
fn sources(endings: &[&str]) -> Vec<PathBuf> {
    fn walk(dir: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", "node_modules", ".git"].contains(&name.as_str()) {
                    walk(&path, endings, found);
                }
            } else if endings.iter().any(|e| name.ends_with(e)) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), endings, &mut found);
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Which of our crates each may use in its normal build.
const MAY_USE: &[(&str, &[&str])] = &[
    ("stewards-core", &[]),
    ("stewards-store", &["stewards-core"]),
    ("stewards-engine", &["stewards-core", "stewards-store"]),
    ("stewards-agents", &["stewards-core"]),
    ("stewards-sources", &["stewards-core"]),
    ("stewards-web", &["stewards-core", "stewards-store", "stewards-engine"]),
    ("stewards-twin", &["stewards-core"]),
    ("stewards-testkit", &["stewards-core", "stewards-store", "stewards-engine"]),
    (
        "stewards",
        &[
            "stewards-core",
            "stewards-store",
            "stewards-engine",
            "stewards-agents",
            "stewards-sources",
            "stewards-web",
            "stewards-twin",
        ],
    ),
];

/// Libraries that stand for a job, and the only rooms that may have them.
const JOBS: &[(&str, &[&str])] = &[
    ("rusqlite", &["stewards-store"]),
    ("maud", &["stewards-web"]),
    ("clap", &["stewards"]),
    ("rmcp", &["stewards-web"]),
    ("reqwest", &["stewards-sources", "stewards-twin"]),
    ("agent-client-protocol", &["stewards-agents", "stewards-twin"]),
    ("async-graphql", &["stewards-twin"]),
    ("anyhow", &["stewards"]),
];

/// All that core may have.
const CORE: &[&str] =
    &["jiff", "rpds", "serde", "serde_json", "thiserror", "serde-saphyr", "pulldown-cmark", "sha2", "hex"];

#[test]
fn every_room_uses_only_what_its_walls_allow() {
    let metadata = metadata();
    let may: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut bad = Vec::new();
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
        let Some(allowed) = may.get(name) else {
            bad.push(format!("{name} is a new room: give it its walls"));
            continue;
        };
        for dependency in &package.dependencies {
            let (on, normal) = (dependency.name.as_str(), dependency.kind == DependencyKind::Normal);
            if normal && may.contains_key(on) && !allowed.contains(&on) {
                bad.push(format!("{name} may not use {on}"));
            }
            if normal && name == "stewards-core" && !CORE.contains(&on) {
                bad.push(format!("core may not use {on}"));
            }
            let job = JOBS.iter().find(|(library, _)| *library == on);
            if normal && job.is_some_and(|(_, rooms)| !rooms.contains(&name)) {
                bad.push(format!("{on} is not for {name}"));
            }
            if normal && on == "stewards-testkit" {
                bad.push(format!("{name} has testkit as a normal dependency"));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn core_has_no_clock_no_outside_and_no_random_order() {
    const NEVER: &[&str] = &[
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::thread",
        "tokio",
        "Timestamp::now",
        "Instant",
        "SystemTime",
        "HashMap",
        "HashSet",
        "async fn",
        ".await",
        "rand::",
    ];
    let mut bad = Vec::new();
    for path in sources(&[".rs"]).into_iter().filter(|p| shown(p).starts_with("crates/core/src")) {
        for (n, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for word in NEVER.iter().filter(|w| code.contains(**w)) {
                bad.push(format!("{}:{}: {word}", shown(&path), n + 1));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn sql_html_processes_and_the_demos_words_stay_in_their_rooms() {
    // Word, and where it may stand.
    let rules: &[(&str, &[&str])] = &[
        ("CREATE TABLE", &["crates/store/"]),
        ("INSERT INTO", &["crates/store/"]),
        ("html! {", &["crates/web/"]),
        ("Command::new", &["crates/agents/", "crates/twin/", "crates/stewards/", "crates/testkit/"]),
        ("acme/bakery", &["crates/stewards/src/demo/", "crates/web/src/pages/samples.rs"]),
        (
            "Timestamp::now",
            &["crates/engine/", "crates/twin/", "crates/stewards/", "crates/sources/", "crates/web/src/hooks.rs"],
        ),
    ];
    let mut bad = Vec::new();
    for path in sources(&[".rs"]) {
        let name = shown(&path);
        if name.contains("/tests/") || name == "crates/testkit/src/sim.rs" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (word, places) in rules {
            if text.contains(word) && !places.iter().any(|p| name.starts_with(p)) {
                bad.push(format!("{name}: `{word}`"));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn no_hand_written_file_is_longer_than_600_lines() {
    let long: Vec<String> = sources(&[".rs", ".js", ".mjs", ".css", ".sql", ".sh", ".md"])
        .into_iter()
        .filter(|p| !shown(p).contains("/tests/"))
        .filter_map(|p| {
            let lines = std::fs::read_to_string(&p).ok()?.lines().count();
            (lines > 600).then(|| format!("{} has {lines} lines", shown(&p)))
        })
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn every_test_file_is_named_by_its_runner() {
    let all = sources(&[".rs"]);
    let mut bad = Vec::new();
    for main in all.iter().filter(|p| p.ends_with("tests/it/main.rs")) {
        let text = std::fs::read_to_string(main).unwrap();
        let dir = main.parent().unwrap();
        for file in all.iter().filter(|p| p.parent() == Some(dir) && *p != main) {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            if !text.contains(&format!("mod {name};")) {
                bad.push(format!("{} is run by nobody", shown(file)));
            }
        }
    }
    let stray = all.iter().filter(|p| shown(p).contains("/tests/") && !shown(p).contains("/tests/it/"));
    bad.extend(stray.map(|p| format!("{} makes a test binary of its own", shown(p))));
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn every_room_stands_in_the_architecture() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(text.contains(&format!("{name}/")), "ARCHITECTURE.md does not name {name}/");
    }
}

#[test]
fn every_promise_names_a_file_and_a_test_that_are_there() {
    let text = std::fs::read_to_string(root().join("docs/features.md")).unwrap();
    let tests: String = sources(&[".rs", ".mjs"]).iter().map(|p| std::fs::read_to_string(p).unwrap()).collect();
    let mut bad = Vec::new();
    let mut promises = 0;
    for line in text.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| promise") && !l.starts_with("| ---")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, state, file, test] = cells[..] else {
            bad.push(format!("not four cells: {line}"));
            continue;
        };
        promises += 1;
        if state != "kept" && !state.starts_with("part: ") {
            bad.push(format!("`{state}` is neither kept nor part: {line}"));
        }
        for path in file.split(", ") {
            if !root().join(path.trim_matches('`')).exists() {
                bad.push(format!("{path} is not there"));
            }
        }
        for name in test.split(", ") {
            if !tests.contains(name.trim_matches('`')) {
                bad.push(format!("no test has the name {name}"));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(promises > 20, "only {promises} promises were found");
}

#[test]
fn the_bus_is_documented_by_its_own_table() {
    let text = std::fs::read_to_string(root().join("docs/bus.md")).unwrap();
    let table = stewards_core::bus::table();
    assert!(text.contains(&table), "put this into docs/bus.md:\n{table}");
}

#[test]
fn every_licence_that_comes_along_is_a_free_one() {
    const FREE: &[&str] = &[
        "MIT",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Unlicense",
        "Zlib",
        "0BSD",
        "Unicode-3.0",
        "CC0-1.0",
        "BSL-1.0",
        "CDLA-Permissive-2.0",
        "MIT-0",
        "OpenSSL",
    ];
    /// No licence in its manifest, but an MIT text in its LICENSE file.
    const BY_FILE: &[&str] = &["jsonpath-rust"];
    let metadata = metadata();
    let ours: BTreeSet<_> = metadata.workspace_members.iter().collect();
    let mut bad = Vec::new();
    for package in metadata.packages.iter().filter(|p| !ours.contains(&p.id)) {
        let licence = package.license.clone().unwrap_or_default().replace('/', " OR ");
        // One free alternative is enough; all parts of an AND have to be free.
        let free = licence.split(" OR ").any(|choice| {
            choice.split(" AND ").all(|part| {
                let part = part.trim_matches(|c: char| c == '(' || c == ')' || c == ' ');
                FREE.contains(&part.split(" WITH ").next().unwrap_or(part))
            })
        });
        if !free && !BY_FILE.contains(&package.name.as_str()) {
            bad.push(format!("{} {}: `{licence}`", package.name, package.version));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn nothing_names_this_machine_or_a_registry() {
    let words: Vec<String> = [("/wo", "rk/"), ("registry.npm", "js"), ("index.crates", ".io"), ("deb.deb", "ian")]
        .iter()
        .map(|(a, b)| format!("{a}{b}"))
        .collect();
    let mut bad = Vec::new();
    for path in sources(&[".rs", ".md", ".mjs", ".js", ".json", ".toml", ".css", ".sql"]) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for word in words.iter().filter(|w| text.contains(w.as_str())) {
            bad.push(format!("{}: {word}", shown(&path)));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}
