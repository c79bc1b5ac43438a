//! The real `gh` behind ours: what it would write is signed first, or right afterwards
//! where its words are its own; what it wrote is put on record; merging and approving are
//! left to their gates.

use super::{gated, path_is_gated, record, thread, web_host};
use crate::commands::text_file;
use crate::out::Outcome;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stewards_core::entity::PullKey;
use stewards_core::refusal::Refusal;
use stewards_core::stewards::{is_signed, sign};
use stewards_web::Ask;

/// The `gh` that is installed. It speaks to GitHub by https only.
pub fn real() -> Option<PathBuf> {
    if !super::api().starts_with("https://") {
        return None;
    }
    let ours = std::env::current_exe().and_then(|p| p.canonicalize()).ok();
    let path = std::env::var_os("PATH")?;
    let others = std::env::split_paths(&path).map(|dir| dir.join("gh"));
    others.into_iter().find(|gh| gh.is_file() && gh.canonicalize().ok() != ours)
}

/// What comes of a command line.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// It writes nothing that has words, or is not ours to look into.
    Pass,
    /// It opens a pull.
    Create,
    /// It says something, or changes a pull or an issue.
    Write(&'static str),
}

/// Flags of these commands that take a value in the next word.
const VALUED: [&str; 6] = ["-R", "--repo", "--hostname", "-t", "--title", "--template"];

/// The command's words, without flags and their values.
fn words(args: &[String]) -> Vec<&str> {
    let mut out = Vec::new();
    let mut skip = false;
    for arg in args {
        if std::mem::take(&mut skip) {
            continue;
        }
        skip = VALUED.contains(&arg.as_str());
        if !arg.starts_with('-') {
            out.push(arg.as_str());
        }
    }
    out
}

/// What a command would do; refuses what has a gate of its own.
fn plan(args: &[String]) -> Result<Plan, Refusal> {
    let has = |names: &[&str]| args.iter().any(|a| names.contains(&a.split('=').next().unwrap_or_default()));
    if has(&["--help", "-h"]) {
        return Ok(Plan::Pass);
    }
    let words = words(args);
    let verb = (words.first().copied().unwrap_or_default(), words.get(1).copied().unwrap_or_default());
    Ok(match verb {
        ("pr", "merge") => return Err(gated("`gh pr merge`")),
        ("pr", "review") if has(&["--approve", "-a"]) => return Err(gated("approving a pull request")),
        ("pr", "create") => Plan::Create,
        ("pr" | "issue", "comment") => Plan::Write("commented"),
        ("pr", "review") => Plan::Write("reviewed"),
        ("pr" | "issue", "edit") => Plan::Write("edited"),
        ("pr" | "issue", "close") => Plan::Write("closed"),
        ("pr" | "issue", "reopen") => Plan::Write("reopened"),
        ("pr", "ready") => Plan::Write("marked as ready"),
        ("issue", "create") => Plan::Write("filed"),
        ("api", _) => {
            api_is_free(args)?;
            Plan::Pass
        }
        _ => Plan::Pass,
    })
}

/// The value of a flag, in the next word or after `=`.
fn value<'a>(args: &'a [String], names: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (n, arg) in args.iter().enumerate() {
        match arg.split_once('=') {
            Some((name, value)) if names.contains(&name) && name.starts_with("--") => found.push(value),
            _ if names.contains(&arg.as_str()) => found.extend(args.get(n + 1).map(String::as_str)),
            _ => {}
        }
    }
    found
}

const FIELDS: [&str; 4] = ["-f", "--raw-field", "-F", "--field"];

fn api_is_free(args: &[String]) -> Result<(), Refusal> {
    let method = value(args, &["-X", "--method"]).last().map(|m| m.to_ascii_uppercase());
    let fields = value(args, &FIELDS);
    let input = !value(args, &["--input"]).is_empty();
    let writes = method.as_deref().map_or(!fields.is_empty() || input, |m| m != "GET");
    let named: Vec<&str> = words(args).into_iter().skip(1).collect();
    if let Some(path) = named.iter().find(|w| path_is_gated(w, writes)) {
        return Err(gated(&format!("writing to `{path}`")));
    }
    const MUTATIONS: [&str; 5] = [
        "mergePullRequest",
        "mergeBranch",
        "enablePullRequestAutoMerge",
        "addPullRequestReview",
        "submitPullRequestReview",
    ];
    match MUTATIONS.iter().find(|m| fields.iter().any(|f| f.contains(*m))) {
        Some(mutation) => Err(gated(&format!("the mutation {mutation}"))),
        None => Ok(()),
    }
}

/// Signs every text that the command line brings along.
fn signed(args: Vec<String>) -> anyhow::Result<Vec<String>> {
    let api = args.first().is_some_and(|a| a == "api");
    let (texts, files): (&[&str], &[&str]) = match api {
        true => (&[], &[]),
        false => (&["-b", "--body", "-c", "--comment"], &["-F", "--body-file"]),
    };
    let sign = |text: &str| if is_signed(text) { text.to_owned() } else { sign(text, &thread(), None) };
    let mut out = Vec::with_capacity(args.len());
    let mut rest = args.into_iter();
    while let Some(arg) = rest.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (arg.clone(), None),
        };
        let wanted = |all: &[&str]| all.contains(&name.as_str());
        if !(wanted(texts) || wanted(files) || api && wanted(&FIELDS) || api && name == "--input") {
            out.push(arg);
            continue;
        }
        let Some(value) = inline.or_else(|| rest.next()) else {
            out.push(arg);
            break;
        };
        if wanted(texts) {
            // `-c` of another command has no value of words: those are not written ones.
            out.extend([name, sign(&value)]);
        } else if wanted(files) {
            out.extend(["--body".to_owned(), sign(&text_file(Path::new(&value))?)]);
        } else if name == "--input" {
            out.extend([name, input(&value, &sign)?]);
        } else {
            let (field, text) = value.split_once('=').unwrap_or((&value, ""));
            let typed = name == "-F" || name == "--field";
            match (field, typed.then(|| text.strip_prefix('@')).flatten()) {
                ("body", Some(file)) => {
                    out.extend(["-f".into(), format!("body={}", sign(&text_file(Path::new(file))?))]);
                }
                ("body", None) => out.extend(["-f".into(), format!("body={}", sign(text))]),
                _ => out.extend([name, value]),
            }
        }
    }
    Ok(out)
}

/// A body of JSON whose `body` is signed, as a file that `gh` reads.
fn input(file: &str, sign: &impl Fn(&str) -> String) -> anyhow::Result<String> {
    let text = text_file(Path::new(file))?;
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return Ok(file.to_owned()) };
    let Some(Value::String(body)) = value.get_mut("body") else { return Ok(file.to_owned()) };
    *body = sign(body);
    let place = std::env::temp_dir().join(format!("stewards-gh-{}.json", std::process::id()));
    stewards_store::private_file(&place)?;
    std::fs::write(&place, value.to_string())?;
    Ok(place.to_string_lossy().into_owned())
}

fn command(gh: &Path) -> Command {
    let mut command = Command::new(gh);
    let host = web_host();
    // An Enterprise server has its own name and its own variable.
    if host != "github.com" {
        command.env("GH_HOST", &host);
        if let Ok(token) = std::env::var("GH_TOKEN") {
            command.env("GH_ENTERPRISE_TOKEN", token);
        }
    }
    command
}

pub fn run(gh: &Path, args: Vec<String>) -> Outcome {
    let plan = plan(&args)?;
    let args = signed(args)?;
    if plan == Plan::Pass {
        return Err(command(gh).args(&args).exec().into());
    }
    let done = command(gh).args(&args).stdout(Stdio::piped()).spawn()?.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    std::io::Write::write_all(&mut std::io::stdout(), &done.stdout)?;
    let code = done.status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1);
    if code != 0 {
        return Ok(code);
    }
    match plan {
        Plan::Pass => {}
        Plan::Create => created(gh, &said),
        Plan::Write(what) => {
            let named = said.lines().rev().find_map(pull_of).or_else(|| asked(gh, &args));
            if let Some(pull) = named {
                record(&Ask::Wrote { pull: pull.to_string(), what: what.to_owned() });
            }
        }
    }
    Ok(0)
}

/// The pull whose address a line is.
fn pull_of(line: &str) -> Option<PullKey> {
    let path = line.trim().split_once("://")?.1.split(['#', '?']).next()?;
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [_, owner, name, "pull", number, ..] => PullKey::parse(&format!("{owner}/{name}#{number}")),
        _ => None,
    }
}

/// The pull that a command was about, by its own words or by the branch.
fn asked(gh: &Path, args: &[String]) -> Option<PullKey> {
    let words = words(args);
    if words.first() != Some(&"pr") {
        return None;
    }
    let mut view: Vec<String> = ["pr", "view"].map(str::to_owned).to_vec();
    view.extend(words.get(2).map(|w| (*w).to_owned()));
    for repo in value(args, &["-R", "--repo"]) {
        view.extend(["-R".to_owned(), repo.to_owned()]);
    }
    view.extend(["--json", "url", "--jq", ".url"].map(str::to_owned));
    let out = command(gh).args(view).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&out.stdout).lines().find_map(pull_of)
}

/// A pull was opened: its description may be gh's own words (`--fill`), and is signed now.
fn created(gh: &Path, said: &str) {
    let Some(pull) = said.lines().rev().find_map(pull_of) else { return };
    let place = format!("repos/{}/pulls/{}", pull.repo, pull.number);
    let read = command(gh).args(["api", &place]).stdin(Stdio::null()).output();
    let Some(shown) = read.ok().and_then(|o| serde_json::from_slice::<Value>(&o.stdout).ok()) else { return };
    let body = shown["body"].as_str().unwrap_or_default();
    if !is_signed(body) {
        let field = format!("body={}", sign(body, &thread(), None));
        let args = ["api", "-X", "PATCH", &place, "--silent", "-f", &field];
        let done = command(gh).args(args).stdin(Stdio::null()).status();
        if !done.is_ok_and(|s| s.success()) {
            eprintln!("It is open, but its description could not be signed.");
        }
    }
    if let Some(branch) = shown.pointer("/head/ref").and_then(Value::as_str) {
        record(&Ask::PullOpened { pull: pull.to_string(), branch: branch.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn merging_and_approving_are_refused_however_they_are_asked_for() {
        for line in [
            "pr merge 1 --squash",
            "-R o/r pr merge 1",
            "pr -R o/r merge",
            "pr review 1 --approve",
            "pr review -a 1",
            "api -X PUT repos/o/r/pulls/1/merge",
            "api repos/o/r/pulls/1/merge --method=PUT",
            "api repos/o/r/pulls/1/reviews -f event=APPROVE",
            "api repos/o/r/pulls/1/reviews/5/events --input x.json",
            "api graphql -f query=mutation{mergePullRequest(input:{})}",
            "api graphql -F query=mutation{enablePullRequestAutoMerge}",
        ] {
            assert!(plan(&args(line)).is_err(), "{line}");
        }
        for (line, expected) in [
            ("pr create --fill", Plan::Create),
            ("pr comment 1 -b hi", Plan::Write("commented")),
            ("pr -R o/r comment 1", Plan::Write("commented")),
            ("pr review 1 --request-changes -b no", Plan::Write("reviewed")),
            ("pr merge --help", Plan::Pass),
            ("pr view 1", Plan::Pass),
            ("api repos/o/r/pulls/1/reviews", Plan::Pass),
            ("api graphql -f query={viewer{login}}", Plan::Pass),
            ("run rerun 7", Plan::Pass),
        ] {
            assert_eq!(plan(&args(line)).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn every_text_on_the_command_line_is_signed_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("body.md");
        std::fs::write(&file, "from a file").unwrap();
        let path = file.to_str().unwrap();
        for line in [
            "pr comment 1 -b hi".to_owned(),
            "pr comment 1 --body=hi".into(),
            format!("pr create --title t -F {path}"),
            format!("pr edit 1 --body-file={path}"),
            "pr close 1 -c bye".into(),
            "api repos/o/r/issues/1/comments -f body=hi".into(),
            format!("api repos/o/r/issues/1/comments -F body=@{path}"),
        ] {
            let once = signed(args(&line)).unwrap();
            assert_eq!(once.join(" ").matches("stewards:signed").count(), 1, "{line}: {once:?}");
            assert_eq!(signed(once.clone()).unwrap(), once, "{line}");
        }
        for line in ["pr view 1 --json body", "api repos/o/r -f title=x", "pr create --fill"] {
            assert_eq!(signed(args(line)).unwrap(), args(line), "{line}");
        }
        let json = dir.path().join("input.json");
        std::fs::write(&json, r#"{"body": "hi", "event": "COMMENT"}"#).unwrap();
        let out = signed(args(&format!("api repos/o/r/issues/1/comments --input {}", json.display()))).unwrap();
        let written = std::fs::read_to_string(out.last().unwrap()).unwrap();
        assert!(written.contains("stewards:signed") && written.contains("COMMENT"), "{written}");
        std::fs::remove_file(out.last().unwrap()).unwrap();
    }

    #[test]
    fn the_pull_of_an_address_is_known() {
        let key = PullKey::parse("o/r#7");
        assert_eq!(pull_of("https://github.com/o/r/pull/7"), key);
        assert_eq!(pull_of("https://git.example.com/o/r/pull/7#issuecomment-1"), key);
        assert_eq!(pull_of("https://github.com/o/r/issues/7"), None);
        assert_eq!(pull_of("Creating pull request"), None);
    }
}
