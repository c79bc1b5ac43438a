//! Paths as resources: one file is one thing, however it is spelled and from
//! whichever worktree.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use stewards_core::entity::RepoName;
use stewards_core::refusal::Refusal;
use stewards_core::text::shell;
use unicode_normalization::UnicodeNormalization;

/// A `path:` resource from the root of its repository on. A relative one is taken from
/// the root of the worktree that `cwd` is in, whatever its folder; links are followed
/// as far as they are there; on a volume where letter case says nothing, it says
/// nothing here. Other resources are left as they are.
pub fn resolve(resource: &str, cwd: &Path) -> Result<String, Refusal> {
    let Some(typed) = resource.strip_prefix("path:").filter(|p| !p.trim().is_empty()) else {
        return Ok(resource.to_owned());
    };
    if typed.split_once(':').is_some_and(|(repo, _)| RepoName::parse(repo).is_some()) {
        return Ok(resource.to_owned());
    }
    let here = worktree(cwd);
    let typed = match typed.strip_prefix("~/").zip(std::env::var_os("HOME")) {
        Some((rest, home)) => PathBuf::from(home).join(rest),
        None => PathBuf::from(typed),
    };
    let meant = match (&here, typed.is_absolute()) {
        (_, true) => typed.clone(),
        (Some(root), false) => {
            not_doubled(root, &typed)?;
            root.join(&typed)
        }
        // Outside any repository it is taken from the root of the thread's own.
        (None, false) => return Ok(resource.to_owned()),
    };
    let real = followed(&plain(&meant));
    let Some(root) = worktree(&real) else {
        let says = format!("{} is in no repository", meant.display());
        return Err(Refusal::usage("bad_path", says, "write it from the repository's root, without a leading /"));
    };
    let inside = real.strip_prefix(&root).unwrap_or(&real).to_string_lossy().into_owned();
    // Such a volume takes composed and decomposed letters for the same, too.
    let inside = if ignores_case(&root) { inside.nfc().collect::<String>().to_lowercase() } else { inside };
    let other = || {
        let theirs = stewards_agents::origin(&root)?;
        let own = here.as_deref().and_then(stewards_agents::origin);
        (own.as_ref() != Some(&theirs)).then(|| RepoName::of_remote(&theirs)).flatten()
    };
    Ok(match other() {
        Some(repo) => format!("path:{repo}:{inside}"),
        None => format!("path:{inside}"),
    })
}

/// `shop/src/a.rs` in the repository `shop` most likely means `src/a.rs`.
fn not_doubled(root: &Path, typed: &Path) -> Result<(), Refusal> {
    let name = stewards_agents::origin(root).and_then(|o| RepoName::of_remote(&o)).map(|r| r.name().to_owned());
    let mut parts = typed.components();
    let first = parts.next().map(|c| c.as_os_str().to_string_lossy().into_owned());
    let rest = parts.as_path();
    if name.is_none() || first != name || rest.as_os_str().is_empty() || root.join(typed).exists() {
        return Ok(());
    }
    let says = format!("{} does not exist, and its first part is the repository's name", typed.display());
    let spelled = shell(&format!("path:{}", rest.display()));
    Err(Refusal::usage("doubled_name", says, format!("paths begin at the repository's root: {spelled}")))
}

/// Without `.` and `..`, as it is written.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

/// With links followed, as far as it is there.
fn followed(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut at = path;
    loop {
        if let Ok(real) = at.canonicalize() {
            return rest.iter().rev().fold(real, |path, part| path.join(part));
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                at = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

/// The root of the worktree that a path is in, whether or not the path is there.
fn worktree(path: &Path) -> Option<PathBuf> {
    let real = followed(path);
    real.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
}

/// Said by the repository itself, since the operating system does not know it of a
/// volume.
fn ignores_case(root: &Path) -> bool {
    let mut git = Command::new("git");
    git.args(["config", "--type=bool", "--get", "core.ignorecase"]).current_dir(root);
    git.stdin(Stdio::null()).stderr(Stdio::null()).output().is_ok_and(|o| o.stdout.starts_with(b"true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(at: &Path, args: &[&str]) {
        let name = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
        assert!(Command::new("git").args(name).args(args).current_dir(at).output().unwrap().status.success());
    }

    /// A repository `acme/shop` with a file, a link to a folder, and a linked worktree
    /// of its own beside it; and another one.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (name, remote) in [("shop", "https://git.example/acme/shop.git"), ("api", "git@git.example:acme/api.git")] {
            let at = root.join(name);
            std::fs::create_dir_all(at.join("src")).unwrap();
            std::fs::write(at.join("src/a.rs"), "").unwrap();
            git(&at, &["init", "--quiet"]);
            git(&at, &["remote", "add", "origin", remote]);
            git(&at, &["add", "."]);
            git(&at, &["commit", "--quiet", "-m", "first"]);
        }
        std::os::unix::fs::symlink("src", root.join("shop/code")).unwrap();
        git(&root.join("shop"), &["worktree", "add", "--quiet", "../tree"]);
        (dir, root)
    }

    #[test]
    fn every_spelling_of_a_file_is_one_from_any_folder_and_worktree() {
        let (_dir, root) = place();
        let shop = root.join("shop");
        let tree = root.join("tree");
        let absolute = format!("path:{}", tree.join("src/a.rs").display());
        for cwd in [&shop, &shop.join("src"), &tree] {
            for typed in ["path:src/a.rs", "path:./src//a.rs", "path:src/../src/a.rs", &absolute] {
                assert_eq!(resolve(typed, cwd).unwrap(), "path:src/a.rs", "{typed} in {}", cwd.display());
            }
        }
        assert_eq!(resolve("path:code/a.rs", &shop).unwrap(), "path:src/a.rs", "through a link");
        assert_eq!(
            resolve("path:code/new/b.rs", &shop).unwrap(),
            "path:src/new/b.rs",
            "also where it is not there yet"
        );
        // Composed and decomposed, large and small are distinct here, as on this volume.
        assert_ne!(resolve("path:\u{e9}.rs", &shop), resolve("path:e\u{301}.rs", &shop));
        assert_ne!(resolve("path:src/A.rs", &shop), resolve("path:src/a.rs", &shop));
        git(&shop, &["config", "core.ignorecase", "true"]);
        assert_eq!(resolve("path:src/A.rs", &shop), resolve("path:src/a.rs", &shop));
        assert_eq!(resolve("path:\u{c9}.rs", &shop), resolve("path:e\u{301}.rs", &shop));
    }

    #[test]
    fn another_repository_is_named_and_what_is_none_is_refused() {
        let (_dir, root) = place();
        let (shop, api) = (root.join("shop"), root.join("api"));
        let there = format!("path:{}", api.join("src/a.rs").display());
        assert_eq!(resolve(&there, &shop).unwrap(), "path:acme/api:src/a.rs");
        assert_eq!(resolve(&there, &root).unwrap(), "path:acme/api:src/a.rs", "from outside as well");
        assert_eq!(resolve("path:acme/api:src/a.rs", &shop).unwrap(), "path:acme/api:src/a.rs");
        let refusal = resolve("path:shop/src/a.rs", &shop).unwrap_err();
        assert!(refusal.code == "doubled_name" && refusal.hint.ends_with("path:src/a.rs"), "{}", refusal.hint);
        std::fs::create_dir(shop.join("shop")).unwrap();
        std::fs::write(shop.join("shop/b.rs"), "").unwrap();
        assert_eq!(resolve("path:shop/b.rs", &shop).unwrap(), "path:shop/b.rs", "it is there");
        assert_eq!(resolve("path:/no/such/place", &shop).unwrap_err().code, "bad_path");
        assert_eq!(resolve("path:src/a.rs", &root).unwrap(), "path:src/a.rs", "left to the thread's own repository");
        for other in ["pr:7", "branch:x", "path:", "task:A-1"] {
            assert_eq!(resolve(other, &shop).unwrap(), other);
        }
    }
}
